//! Attention in one file: open, compile at first use, launch, look at one row.
//!
//!     cargo run --example hello          the first CUDA device
//!     cargo run --example hello sm_80    the CPU device as an sm_80 GPU
use attune::{Args, Context, Corner, Dtype, Error, Mask, Problem, View, ViewMut};

fn main() -> Result<(), Error> {
    let options = Context::options().message(|_, text| eprintln!("attune: {text}"));
    let context = match std::env::args().nth(1) {
        Some(arch) => options.cpu(&arch)?,
        None => options.cuda(0)?,
    };

    let shape = [1, 100, 2, 64]; // batch, sequence, heads, dim
    let count: usize = shape.iter().product();
    let ramp: Vec<f32> = (0..count).map(|i| (i % 101) as f32 / 50.0 - 1.0).collect();
    let (mut x, mut o) = (context.alloc(count * 4)?, context.alloc(count * 4)?);
    x.upload(&ramp)?;

    let input = View::dense(&x, Dtype::F32, &shape)?;
    let output = ViewMut::dense(&mut o, Dtype::F32, &shape)?;
    let mut args = Args::new(input, input, input, output)?.mask(Mask::Causal, Corner::TopLeft);
    let program = context.prepare(&Problem::of(&args))?;
    program.launch(&mut args)?;

    let mut result = vec![0f32; count];
    o.download(&mut result)?; // waits for the launch
    println!(
        "{} on {}",
        program.info()?.kernels[0].name,
        context.device_name()
    );
    println!(
        "row 0 sees itself alone: {:?} is {:?}",
        &result[..3],
        &ramp[..3]
    );
    Ok(())
}
