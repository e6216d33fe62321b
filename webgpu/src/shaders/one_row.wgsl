// Products of one row of x at a time.
const ROWS = 1u;
alias Numbers = vec4<f32>;
alias Results = f32;

fn numbers_at(at: u32, stride: u32) -> Numbers {
    return x[at];
}

fn scaled(numbers: Numbers, scale: vec4<f32>) -> Numbers {
    return numbers * scale;
}

fn product(factors: vec4<f32>, numbers: Numbers) -> Results {
    return dot(factors, numbers);
}

fn squares_of(numbers: Numbers) -> Results {
    return dot(numbers, numbers);
}

fn result_at(results: Results, row: u32) -> f32 {
    return results;
}

fn subgroup_results(results: Results) -> Results {
    return subgroup_sum(results);
}
