//! Experts of gpt-oss as llama.cpp's converter writes them: gate and up projection apart, outputs before inputs.

use outrider_models::ElementType;

use crate::{
    gguf::{F32, Gguf, bytes, row},
    golden::Weight,
};

/// Adds the experts among the weights of a checkpoint. A matrix in MXFP4 stays one.
pub(crate) fn add_experts(file: &mut Gguf, weights: &[Weight]) {
    for Weight { name, shape, values } in weights {
        let Some((block, part)) = name.split_once(".mlp.experts.") else { continue };
        let block = block.replace("model.layers.", "blk.");
        let (names, kind) = match part.strip_prefix("gate_up_proj") {
            Some(kind) => (&["ffn_gate_exps", "ffn_up_exps"][..], kind),
            None => (&["ffn_down_exps"][..], part.strip_prefix("down_proj").unwrap()),
        };
        for (first, own) in names.iter().enumerate() {
            let outputs = |stored: usize| (first..stored).step_by(names.len());
            match (kind, &shape[..]) {
                ("_bias", &[experts, stored]) => {
                    let all = (0..experts).flat_map(|expert| outputs(stored).map(move |output| [expert, output]));
                    let values: Vec<f32> = all.map(|[expert, output]| values[expert * stored + output]).collect();
                    let shape = [experts, stored / names.len()].map(|n| n as u64);
                    file.tensor(&format!("{block}.{own}.bias"), &shape, F32.1, &bytes(&values));
                }
                ("", &[experts, inputs, stored]) => {
                    let rows = (0..experts).flat_map(|expert| outputs(stored).map(move |output| [expert, output]));
                    let row = |[expert, output]: [usize; 2]| {
                        (0..inputs).map(move |input| values[(expert * inputs + input) * stored + output])
                    };
                    let values: Vec<f32> = rows.flat_map(row).collect();
                    let shape = [experts, stored / names.len(), inputs].map(|n| n as u64);
                    file.tensor(&format!("{block}.{own}.weight"), &shape, F32.1, &bytes(&values));
                }
                ("_blocks", &[experts, stored, groups, 16]) => {
                    let scales = name.replace("_blocks", "_scales");
                    let scales = &weights.iter().find(|weight| weight.name == scales).unwrap().values;
                    let mut data = Vec::new();
                    for row in
                        (0..experts).flat_map(|expert| outputs(stored).map(move |output| expert * stored + output))
                    {
                        for group in row * groups..(row + 1) * groups {
                            let element = |i: usize| (values[group * 16 + i / 2] as u8 >> (4 * (i % 2))) & 15;
                            data.push(scales[group] as u8);
                            data.extend((0..16).map(|i| element(i) | element(i + 16) << 4));
                        }
                    }
                    let shape = [experts, stored / names.len(), 32 * groups].map(|n| n as u64);
                    file.tensor(&format!("{block}.{own}.weight"), &shape, row(ElementType::MXFP4).1, &data);
                }
                ("_scales", _) => {}
                other => panic!("{name}: {other:?}"),
            }
        }
    }
}
