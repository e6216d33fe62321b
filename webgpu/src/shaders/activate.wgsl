// An activation of each element, and where there is a gate its product with what the gate lets through.
struct Shape {
    width: u32,
}

const ROOT = 0.7978845608028654;

fn silu(x: f32) -> f32 {
    return x / (1.0 + exp(-x));
}

fn gelu_tanh(x: f32) -> f32 {
    let inner = ROOT * (x + 0.044715 * x * x * x);
    return 0.5 * x * (1.0 + tanh(clamp(inner, -15.0, 15.0)));
}

fn relu(x: f32) -> f32 {
    return max(x, 0.0);
}

@group(0) @binding(0) var<storage, read_write> gate: array<f32>;
@group(0) @binding(1) var<storage, read> up: array<f32>;
@group(0) @binding(2) var<uniform> shape: Shape;

@compute @workgroup_size(64)
fn activate(@builtin(global_invocation_id) at: vec3<u32>) {
    if (at.x >= shape.width) {
        return;
    }
    let i = at.y * shape.width + at.x;
    gate[i] = ACTIVATION(gate[i]) FACTOR;
}
