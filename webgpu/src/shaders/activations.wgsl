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
