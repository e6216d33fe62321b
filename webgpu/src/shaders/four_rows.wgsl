// Products of four rows of x at a time.
const ROWS = 4u;
// Matrix with one column per row of x.
alias Numbers = mat4x4<f32>;
alias Results = vec4<f32>;

fn numbers_at(at: u32, stride: u32) -> Numbers {
    return Numbers(x[at], x[at + stride], x[at + 2u * stride], x[at + 3u * stride]);
}

fn scaled(numbers: Numbers, scale: vec4<f32>) -> Numbers {
    return Numbers(numbers[0] * scale, numbers[1] * scale, numbers[2] * scale, numbers[3] * scale);
}

fn product(factors: vec4<f32>, numbers: Numbers) -> Results {
    return factors * numbers;
}

fn squares_of(numbers: Numbers) -> Results {
    return Results(
        dot(numbers[0], numbers[0]),
        dot(numbers[1], numbers[1]),
        dot(numbers[2], numbers[2]),
        dot(numbers[3], numbers[3]),
    );
}

fn result_at(results: Results, row: u32) -> f32 {
    return results[row];
}

fn subgroup_results(results: Results) -> Results {
    return subgroup_sums(results);
}
