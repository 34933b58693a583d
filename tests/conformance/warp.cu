// warp.cu - what lanes of one warp say to each other: shuffles, votes, reductions, elect.
// Word i of the input is lane i's value, word 32 + i its lane number or mask.
enum { kShuffles = 8 };

// mode, %0 value, %1 whether the source lane was in range
#define SHUFFLE(k, mode, operand, clamp)                                                              \
  asm volatile("{ .reg .pred p; shfl.sync." mode ".b32 %0|p, %2, %3, " clamp ", 0xffffffff; selp.u32 %1, 1, 0, p; }" \
               : "=r"(value), "=r"(in_range) : "r"(x), "r"(operand));                                 \
  params.out[(2 * k) * 32 + lane()] = value;                                                          \
  params.out[(2 * k + 1) * 32 + lane()] = in_range;

KERNEL(shuffles, 32) {
  const u32 x = params.in[lane()], y = params.in[32 + lane()];
  u32 value, in_range;
  SHUFFLE(0, "bfly", 1, "0x1f")
  SHUFFLE(1, "bfly", 16, "0x1f")
  SHUFFLE(2, "idx", y, "0x1f")
  SHUFFLE(3, "up", 3, "0x0")
  SHUFFLE(4, "down", 5, "0x1f")
  SHUFFLE(5, "idx", y, "0x181f")
  SHUFFLE(6, "up", 2, "0x1800")
  SHUFFLE(7, "down", 2, "0x181f")
}

KERNEL(votes, 32) {
  const u32 x = params.in[lane()];
  u32 r[5], p = x & 1;
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %1, 0; vote.sync.ballot.b32 %0, p, 0xffffffff; }" : "=r"(r[0]) : "r"(p));
  asm volatile("{ .reg .pred p, q; setp.ne.b32 p, %1, 0; vote.sync.any.pred q, p, 0xffffffff; selp.u32 %0, 1, 0, q; }"
               : "=r"(r[1]) : "r"(p));
  asm volatile("{ .reg .pred p, q; setp.ne.b32 p, %1, 0; vote.sync.all.pred q, p, 0xffffffff; selp.u32 %0, 1, 0, q; }"
               : "=r"(r[2]) : "r"(p));
  asm volatile("{ .reg .pred p; elect.sync %0|p, 0xffffffff; selp.u32 %1, 1, 0, p; }" : "=r"(r[3]), "=r"(r[4]));
  for (int i = 0; i < 5; i++) params.out[i * 32 + lane()] = r[i];
}

#define REDUCE(k, operation) \
  asm volatile("redux.sync." operation " %0, %1, 0xffffffff;" : "=r"(r) : "r"(x)); \
  params.out[k * 32 + lane()] = r;
KERNEL(redux, 32) {
  const u32 x = params.in[lane()];
  u32 r;
  REDUCE(0, "add.s32")
  REDUCE(1, "min.s32")
  REDUCE(2, "max.s32")
  REDUCE(3, "min.u32")
  REDUCE(4, "max.u32")
  REDUCE(5, "and.b32")
  REDUCE(6, "or.b32")
  REDUCE(7, "xor.b32")
}
