// Puts the keys and values of the pass behind those in the cache.
struct Shape {
    // Of a token, in vectors of four.
    width: u32,
}

@group(0) @binding(0) var<storage, read> key: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> value: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> keys: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> values: array<vec4<f32>>;
@group(0) @binding(4) var<uniform> shape: Shape;
@group(0) @binding(5) var<storage, read> step: Step;

@compute @workgroup_size(64)
fn store(@builtin(global_invocation_id) at: vec3<u32>) {
    if (at.x >= shape.width) {
        return;
    }
    let source = at.y * shape.width + at.x;
    let target_place = (step.start + at.y) * shape.width + at.x;
    keys[target_place] = key[source];
    values[target_place] = value[source];
}
