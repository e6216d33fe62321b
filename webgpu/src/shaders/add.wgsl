// hidden += factor · part.
struct Shape {
    width: u32,
    factor: f32,
}

@group(0) @binding(0) var<storage, read_write> hidden: array<f32>;
@group(0) @binding(1) var<storage, read> part: array<f32>;
@group(0) @binding(2) var<uniform> shape: Shape;

@compute @workgroup_size(64)
fn add(@builtin(global_invocation_id) at: vec3<u32>) {
    if (at.x >= shape.width) {
        return;
    }
    let i = at.y * shape.width + at.x;
    hidden[i] += shape.factor * part[i];
}
