//! The safe wrapper on the CPU device against plain loops; refusals; threads. Needs NVRTC.
#![cfg(all(feature = "cpu", feature = "jit"))]

use attune::{
    Align, Args, Buffer, Context, Corner, Dtype, Error, Level, Mask, Problem, Status, View, ViewMut,
};
use std::sync::{Arc, Mutex};

/// Kernels are compiled once for all tests, and kept from run to run.
fn open() -> Context {
    let store = concat!(env!("CARGO_TARGET_TMPDIR"), "/store");
    Context::options().store(store).cpu("sm_80").unwrap()
}

/// Numbers of -1 .. 1, another sequence for each seed.
fn numbers(seed: u32, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2654435761).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

fn filled<'c>(context: &'c Context, values: &[f32]) -> Buffer<'c> {
    let mut buffer = context.alloc(values.len() * 4).unwrap();
    buffer.upload(values).unwrap();
    buffer
}

#[derive(Clone, Copy)]
struct Shape {
    batch: usize,
    len: (usize, usize),
    heads: (usize, usize),
    dim: usize,
}

const SMALL: Shape = Shape {
    batch: 1,
    len: (20, 20),
    heads: (2, 2),
    dim: 32,
};

impl Shape {
    fn q(&self) -> [usize; 4] {
        [self.batch, self.len.0, self.heads.0, self.dim]
    }
    fn kv(&self) -> [usize; 4] {
        [self.batch, self.len.1, self.heads.1, self.dim]
    }
}

fn count(shape: [usize; 4]) -> usize {
    shape.iter().product()
}

/// O and LSE of dense BSHD inputs, in double; keep(batch, i, j).
fn plain(
    s: Shape,
    [q, k, v]: [&[f32]; 3],
    scale: f64,
    keep: impl Fn(usize, usize, usize) -> bool,
) -> (Vec<f64>, Vec<f64>) {
    let mut out = vec![0.0; count(s.q())];
    let mut lse = vec![f64::NEG_INFINITY; s.batch * s.heads.0 * s.len.0];
    for b in 0..s.batch {
        for h in 0..s.heads.0 {
            let shared = h / (s.heads.0 / s.heads.1);
            for i in 0..s.len.0 {
                let row = ((b * s.len.0 + i) * s.heads.0 + h) * s.dim;
                let key = |j: usize| ((b * s.len.1 + j) * s.heads.1 + shared) * s.dim;
                let mut sum = 0.0;
                for j in (0..s.len.1).filter(|&j| keep(b, i, j)) {
                    let products =
                        (0..s.dim).map(|d| f64::from(q[row + d]) * f64::from(k[key(j) + d]));
                    let weight = (scale * products.sum::<f64>()).exp();
                    sum += weight;
                    for d in 0..s.dim {
                        out[row + d] += weight * f64::from(v[key(j) + d]);
                    }
                }
                if sum > 0.0 {
                    out[row..row + s.dim].iter_mut().for_each(|o| *o /= sum);
                    lse[(b * s.heads.0 + h) * s.len.0 + i] = sum.ln();
                }
            }
        }
    }
    (out, lse)
}

fn furthest(found: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let difference = |(a, b): (&f32, &f64)| match f64::from(*a) {
        a if a == *b => 0.0, // equal infinities
        a => (a - b).abs(),
    };
    let all = found.iter().zip(expected).map(difference);
    all.fold(0.0, |most, x| if x <= most { most } else { x }) // a NaN stays
}

const BOUND: f64 = 2e-5; // fp32, |V| <= 1: the rounding of a few hundred additions

/// What a case asks beside its shape.
struct Ask<'u> {
    mask: Mask,
    corner: Corner,
    scale: Option<f32>,
    used: Option<&'u [i32]>,
}

const PLAIN: Ask = Ask {
    mask: Mask::None,
    corner: Corner::Unnamed,
    scale: None,
    used: None,
};

impl Ask<'_> {
    fn keeps(&self, s: Shape, b: usize, i: usize, j: usize) -> bool {
        let keys = self.used.map_or(s.len.1, |used| used[b] as usize) as i64;
        let shift = match self.corner {
            Corner::BottomRight => keys - s.len.0 as i64,
            _ => 0,
        };
        let distance = j as i64 - i as i64 - shift;
        let within =
            |bound: Option<u32>, distance: i64| bound.map_or(true, |n| distance <= n.into());
        (j as i64) < keys
            && match self.mask {
                Mask::None => true,
                Mask::Causal => distance <= 0,
                Mask::Window { left, right } => within(left, -distance) && within(right, distance),
            }
    }
}

/// Runs one fp32 case and compares O and LSE.
fn run(context: &Context, s: Shape, ask: Ask) {
    let host = [
        numbers(1, count(s.q())),
        numbers(2, count(s.kv())),
        numbers(3, count(s.kv())),
    ];
    let device: Vec<Buffer> = host.iter().map(|values| filled(context, values)).collect();
    let mut used = context.alloc(s.batch * 4).unwrap();
    let mut o = context.alloc(count(s.q()) * 4).unwrap();
    let mut lse = context.alloc(s.batch * s.heads.0 * s.len.0 * 4).unwrap();
    used.upload(ask.used.unwrap_or(&[])).unwrap();
    {
        let q = View::dense(&device[0], Dtype::F32, &s.q()).unwrap();
        let k = View::dense(&device[1], Dtype::F32, &s.kv()).unwrap();
        let v = View::dense(&device[2], Dtype::F32, &s.kv()).unwrap();
        let rows = [s.batch, s.heads.0, s.len.0];
        let mut args = Args::new(q, k, v, ViewMut::dense(&mut o, Dtype::F32, &s.q()).unwrap())
            .and_then(|args| args.lse(ViewMut::dense(&mut lse, Dtype::F32, &rows)?))
            .unwrap()
            .mask(ask.mask, ask.corner);
        if let Some(scale) = ask.scale {
            args = args.scale(scale);
        }
        if ask.used.is_some() {
            args = args
                .seqused_k(View::dense(&used, Dtype::I32, &[s.batch]).unwrap())
                .unwrap();
        }
        let program = context.prepare(&Problem::of(&args)).unwrap();
        assert_eq!(program.workspace_bytes(&args).unwrap(), 0);
        program.launch(&mut args).unwrap();
    }
    let scale = ask.scale.map_or(1.0 / (s.dim as f64).sqrt(), f64::from);
    let inputs = [&host[0][..], &host[1], &host[2]];
    let (want, want_lse) = plain(s, inputs, scale, |b, i, j| ask.keeps(s, b, i, j));
    let (mut found, mut found_lse) = (vec![0f32; want.len()], vec![0f32; want_lse.len()]);
    o.download(&mut found).unwrap();
    lse.download(&mut found_lse).unwrap();
    assert!(
        furthest(&found, &want) < BOUND,
        "O: {}",
        furthest(&found, &want)
    );
    assert!(furthest(&found_lse, &want_lse) < BOUND);
}

#[test]
fn dense_and_gqa() {
    let context = open();
    run(
        &context,
        Shape {
            batch: 2,
            len: (17, 37),
            ..SMALL
        },
        PLAIN,
    );
    run(
        &context,
        Shape {
            heads: (6, 2),
            ..SMALL
        },
        PLAIN,
    );
    run(
        &context,
        SMALL,
        Ask {
            scale: Some(0.3),
            ..PLAIN
        },
    );
    run(
        &context,
        SMALL,
        Ask {
            scale: Some(0.0),
            ..PLAIN
        },
    );
}

#[test]
fn masks() {
    let context = open();
    for corner in [Corner::TopLeft, Corner::BottomRight] {
        let mask = Mask::Causal;
        run(
            &context,
            Shape {
                len: (9, 21),
                ..SMALL
            },
            Ask {
                mask,
                corner,
                ..PLAIN
            },
        );
        run(
            &context,
            Shape {
                len: (12, 5),
                ..SMALL
            },
            Ask {
                mask,
                corner,
                ..PLAIN
            },
        ); // rows see nothing
    }
    for (left, right) in [(Some(3), Some(5)), (None, Some(2)), (Some(0), None)] {
        let mask = Mask::Window { left, right };
        run(
            &context,
            Shape {
                len: (40, 40),
                ..SMALL
            },
            Ask { mask, ..PLAIN },
        );
    }
}

#[test]
fn used_keys() {
    let shape = Shape {
        batch: 3,
        len: (20, 24),
        ..SMALL
    };
    run(
        &open(),
        shape,
        Ask {
            used: Some(&[24, 1, 13]),
            ..PLAIN
        },
    );
}

#[test]
fn bf16_and_views() {
    let context = open();
    let bits = |x: f32| (x.to_bits() >> 16) as u16; // towards zero: what a test of views needs
    let value = |bits: u16| f32::from_bits(u32::from(bits) << 16);
    // [batch, head, sequence, dim], and K and V side by side in one buffer
    let (len, heads, dim) = (24, 2, 64);
    let q: Vec<u16> = numbers(7, heads * len * dim)
        .into_iter()
        .map(bits)
        .collect();
    let kv: Vec<u16> = numbers(8, heads * len * 2 * dim)
        .into_iter()
        .map(bits)
        .collect();
    let mut device_q = context.alloc(q.len() * 2).unwrap();
    let mut device_kv = context.alloc(kv.len() * 2).unwrap();
    let mut device_o = context.alloc(q.len() * 4).unwrap();
    device_q.upload(&q).unwrap();
    device_kv.upload(&kv).unwrap();
    {
        let shape = [1, heads, len, dim];
        let strides = [
            (heads * len * 2 * dim) as i64,
            (len * 2 * dim) as i64,
            (2 * dim) as i64,
            1,
        ];
        let part = |at| View::strided(&device_kv, Dtype::Bf16, &shape, &strides, at).unwrap();
        let mut args = Args::new(
            View::dense(&device_q, Dtype::Bf16, &shape)
                .unwrap()
                .transposed(),
            part(0).transposed(),
            part(dim).transposed(),
            ViewMut::dense(&mut device_o, Dtype::Bf16, &shape)
                .unwrap()
                .transposed(),
        )
        .unwrap();
        context
            .prepare(&Problem::of(&args))
            .unwrap()
            .launch(&mut args)
            .unwrap();
    }
    let mut o = vec![0u16; q.len()];
    device_o.download(&mut o).unwrap();
    // the same in BSHD, for the loops
    let shape = Shape {
        batch: 1,
        len: (len, len),
        heads: (heads, heads),
        dim,
    };
    let (mut host, mut found) = ([vec![], vec![], vec![]], vec![]);
    for i in 0..len {
        for h in 0..heads {
            let row = h * len + i;
            host[0].extend(q[row * dim..][..dim].iter().map(|x| value(*x)));
            host[1].extend(kv[row * 2 * dim..][..dim].iter().map(|x| value(*x)));
            host[2].extend(kv[row * 2 * dim + dim..][..dim].iter().map(|x| value(*x)));
            found.extend(o[row * dim..][..dim].iter().map(|x| value(*x)));
        }
    }
    let inputs = [&host[0][..], &host[1], &host[2]];
    let (want, _) = plain(shape, inputs, 1.0 / (dim as f64).sqrt(), |_, _, _| true);
    assert!(furthest(&found, &want) < 1.6e-2); // P and O are rounded once each, 2^-8 below 1
}

fn refused<T>(result: Result<T, Error>, status: Status, words: &str) {
    let error = result.err().expect("was accepted");
    assert_eq!(error.status, status, "{error}");
    assert!(
        error.message.contains(words),
        "{words:?} is not in: {error}"
    );
}

#[test]
fn views_stay_inside_of_their_buffer() {
    let context = open();
    let buffer = context.alloc(4096).unwrap();
    let view = |shape: &[usize], strides: &[i64], offset| {
        View::strided(&buffer, Dtype::F32, shape, strides, offset)
    };
    assert!(View::dense(&buffer, Dtype::F32, &[1, 16, 2, 32]).is_ok());
    assert!(view(&[4, 16, 2, 32], &[0, 64, 32, 1], 0).is_ok());
    assert!(view(&[1, 0, 2, 32], &[0, i64::MAX, 32, 1], 1024).is_ok());
    let inside = "is not inside";
    refused(
        View::dense(&buffer, Dtype::F32, &[1, 17, 2, 32]),
        Status::INVALID,
        inside,
    );
    refused(
        view(&[1, 16, 2, 32], &[0, 64, 32, 1], 1),
        Status::INVALID,
        inside,
    );
    refused(
        view(&[2, 16, 2, 32], &[1, 64, 32, 1], 0),
        Status::INVALID,
        inside,
    );
    refused(
        view(&[2, 16, 2, 32], &[i64::MAX, 64, 32, 1], 0),
        Status::INVALID,
        inside,
    );
    refused(
        view(&[1, 16, 2, 32], &[0, -64, 32, 1], 0),
        Status::INVALID,
        inside,
    );
    refused(
        view(&[1, 16, 2, usize::MAX], &[0, 0, 0, 2], 0),
        Status::INVALID,
        inside,
    );
    refused(
        view(&[1, 2], &[1], 0),
        Status::INVALID,
        "2 extents and 1 strides",
    );
    refused(
        View::dense(&buffer, Dtype::F32, &[1; 5]),
        Status::INVALID,
        "at most 4",
    );
    let mut small = context.alloc(8).unwrap();
    refused(
        small.upload(&[0f32; 3]),
        Status::INVALID,
        "12 bytes do not fit",
    );
    refused(
        small.download(&mut [0f32; 3]),
        Status::INVALID,
        "12 bytes do not fit",
    );
}

#[test]
fn arguments_are_refused_by_name() {
    let context = open();
    let buffer = context.alloc(1 << 16).unwrap();
    let dense = |dtype, shape: &[usize]| View::dense(&buffer, dtype, shape).unwrap();
    let x = dense(Dtype::F32, &[1, 20, 2, 32]);
    let mut out = context.alloc(1 << 16).unwrap();
    let mut new = |q, k, v, shape: &[usize]| {
        Args::new(
            q,
            k,
            v,
            ViewMut::dense(&mut out, Dtype::F32, shape).unwrap(),
        )
        .map(|_| ())
    };
    let shape = [1, 20, 2, 32];
    let ints = dense(Dtype::I32, &shape);
    let thin = dense(Dtype::F32, &[1, 20, 2, 16]);
    let two = dense(Dtype::F32, &[2, 20, 2, 32]);
    refused(new(ints, x, x, &shape), Status::INVALID, "q is I32");
    refused(new(x, two, x, &shape), Status::INVALID, "batch of q and k");
    refused(new(x, x, two, &shape), Status::INVALID, "of k and v");
    refused(new(x, thin, x, &shape), Status::INVALID, "dims of q and k");
    refused(new(x, x, thin, &shape), Status::INVALID, "dims of v and o");
    refused(new(x, x, x, &[1, 19, 2, 32]), Status::INVALID, "of q and o");
    let half = dense(Dtype::F16, &shape);
    refused(
        new(x, half, x, &shape),
        Status::INVALID,
        "k is F16 and v F32",
    );
    let steps = [0, 128, 64, 2];
    let sparse = View::strided(&buffer, Dtype::F32, &shape, &steps, 0).unwrap();
    refused(new(sparse, x, x, &shape), Status::INVALID, "q has stride 2");

    let out = context.alloc(1 << 16).unwrap();
    let strides = [1280, 64, 32, 1];
    let args = || {
        // SAFETY: nothing is launched.
        let o = unsafe { ViewMut::from_raw(out.as_ptr(), Dtype::F32, &shape, &strides) };
        Args::new(x, x, x, o.unwrap()).unwrap()
    };
    let bad = dense(Dtype::F32, &[3]);
    refused(
        args().seqused_k(dense(Dtype::I32, &[2])),
        Status::INVALID,
        "seqused_k is I32",
    );
    refused(args().sinks(bad), Status::INVALID, "sinks is F32");
    refused(
        args().alibi_slopes(bad),
        Status::INVALID,
        "alibi_slopes is F32",
    );
    refused(
        args().bias(dense(Dtype::F16, &[20, 20])),
        Status::INVALID,
        "bias is F16",
    );
    refused(
        args().bias(dense(Dtype::F32, &[20, 7])),
        Status::INVALID,
        "bias is F32",
    );
    refused(
        args().bitmask(dense(Dtype::U32, &[20, 2]), None),
        Status::INVALID,
        "bitmask is U32",
    );
    let starts = (dense(Dtype::I32, &[3]), dense(Dtype::I32, &[4]));
    refused(
        args().packed(starts, (1, 1)),
        Status::INVALID,
        "starts of keys",
    );
}

#[test]
fn a_program_refuses_what_it_was_not_made_for() {
    let (context, other) = (open(), open());
    let buffer = context.alloc(1 << 14).unwrap();
    let foreign = other.alloc(1 << 14).unwrap();
    let mut out = context.alloc(1 << 14).unwrap();
    let shape = [1, 20, 2, 32];
    let x = View::dense(&buffer, Dtype::F32, &shape).unwrap();
    let y = View::dense(&foreign, Dtype::F32, &shape).unwrap();
    let lengths = (20, 20);
    let problem = Problem::new(Dtype::F32, 32).shape(1, (2, 2), lengths);
    let program = context.prepare(&problem).unwrap();
    let mut args = Args::new(
        x,
        x,
        x,
        ViewMut::dense(&mut out, Dtype::F32, &shape).unwrap(),
    )
    .unwrap();
    program.launch(&mut args).unwrap();
    let mut causal = args.mask(Mask::Causal, Corner::TopLeft);
    refused(
        program.launch(&mut causal),
        Status::INVALID,
        "pose another problem",
    );
    let mut args = Args::new(
        x,
        y,
        x,
        ViewMut::dense(&mut out, Dtype::F32, &shape).unwrap(),
    )
    .unwrap();
    refused(
        program.launch(&mut args),
        Status::INVALID,
        "another context",
    );
    let long = context
        .prepare(&Problem::new(Dtype::F32, 64).shape(1, (2, 2), lengths))
        .unwrap();
    let mut args = Args::new(
        x,
        x,
        x,
        ViewMut::dense(&mut out, Dtype::F32, &shape).unwrap(),
    )
    .unwrap();
    refused(long.launch(&mut args), Status::INVALID, "dims 32 and 32");
    let element = problem.clone().align(Align::Element);
    context
        .prepare(&element)
        .unwrap()
        .launch(&mut args)
        .unwrap(); // asks less of the rows
}

#[test]
fn problems_and_programs() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let listener = Arc::clone(&told);
    let context = Context::options()
        .in_memory()
        .message(move |level, text| listener.lock().unwrap().push((level, text.to_owned())))
        .cpu("sm_90a")
        .unwrap();
    assert_eq!(context.arch(), "sm_90a");
    assert_eq!(attune::version(), attune::sys::ATTUNE_VERSION_TEXT);
    let window = Mask::Window {
        left: Some(8),
        right: Some(0),
    };
    let problem = Problem::new(Dtype::F16, 64)
        .mask(window)
        .shape(1, (4, 1), (64, 64));
    context.supports(&problem).unwrap();
    refused(context.find(&problem), Status::NOT_FOUND, "no kernel for");
    let pinned = problem.clone().pin("window_left", 8.0).unwrap();
    refused(
        context.supports(&problem.clone().pin("flags", 1.0).unwrap()),
        Status::INVALID,
        "flags",
    );
    refused(problem.clone().pin("a\0b", 1.0), Status::INVALID, "NUL");
    let program = context.prepare(&pinned).unwrap();
    assert_eq!(context.find(&pinned).unwrap().as_ptr(), program.as_ptr());
    let info = program.info().unwrap();
    assert!(
        info.variant.starts_with("attn_fwd_sm90a_fp16_d64_window_x"),
        "{}",
        info.variant
    );
    assert!(info.prepared && info.origin == "jit" && info.kernels[0].threads > 0);
    assert_eq!(context.variants().unwrap(), [info.variant]);
    assert!(told
        .lock()
        .unwrap()
        .iter()
        .any(|(level, _)| *level == Level::Info));
}

#[test]
fn opening_fails_with_reasons() {
    refused(
        Context::options().cpu("mips"),
        Status::INVALID,
        "options.arch",
    );
    let context = Context::options().no_jit().cpu("sm_80").unwrap();
    refused(context.open_set("build/nowhere"), Status::IO, "nowhere");
    let problem = Problem::new(Dtype::F32, 32).shape(1, (1, 1), (4, 4));
    refused(
        context.prepare(&problem),
        Status::NOT_FOUND,
        "add it to a spec",
    );
    let lookup = Context::options().no_jit().arch("sm_80").unwrap();
    refused(lookup.alloc(16), Status::NO_DEVICE, "");
}

#[test]
fn threads_share_a_context() {
    let context = open();
    std::thread::scope(|scope| {
        for dim in [16, 32, 48, 64] {
            let context = &context;
            scope.spawn(move || run(context, Shape { dim, ..SMALL }, PLAIN));
        }
    });
    assert_eq!(context.variants().unwrap().len(), 4);
}
