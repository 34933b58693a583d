/* cases.h - what verify runs a program on: the list of cases, their data, and the device memory
 * that holds them. Inside of verify only.
 *
 *   cases.c             case   shapes, layouts and values within what the variant claims
 *   cases_features.c           those that a feature asks for
 *   cases_print.c              their names
 *   verify_data.c       trial  a case with its numbers: inputs, and the outputs that they must give
 *   verify_features.c          the inputs beside Q, K and V
 *   verify_arena.c      arena  a trial in device memory, with everything around it poisoned
 *   verify_judge.c      judgement  outputs against the trial's references and the bounds */
#ifndef ATTUNE_CASES_H
#define ATTUNE_CASES_H

#include "../runtime/device.h"
#include "reference.h"
#include "text.h"

/* ---- cases -------------------------------------------------------------------------------------
 */

typedef enum attune__layout {
  ATTUNE__LAYOUT_BSHD,
  ATTUNE__LAYOUT_BHSD,
  ATTUNE__LAYOUT_GAPPED,    /* views with gaps at every level, no two tensors alike */
  ATTUNE__LAYOUT_BROADCAST, /* K stride 0 over batch, V over batch and heads */
  ATTUNE__LAYOUT_ODD,       /* base one element off, odd strides: align elem only */
  /* rows 2^30 elements apart along one axis of three: the last lies over 2^31 elements away */
  ATTUNE__LAYOUT_FAR_BATCH,
  ATTUNE__LAYOUT_FAR_SEQ,
  ATTUNE__LAYOUT_FAR_HEAD
} attune__layout;

typedef enum attune__fill {
  ATTUNE__FILL_NORMAL,         /* about N(0, 1); K and V that no row sees are NaN */
  ATTUNE__FILL_WIDE,           /* scores with a standard deviation of about 8 */
  ATTUNE__FILL_HUGE,           /* scores of -9984, 0 and 9984, exact in every dtype (at scale 1) */
  ATTUNE__FILL_LOUD,           /* what no row sees is finite and large instead of NaN */
  ATTUNE__FILL_NAN_KEY,        /* one key is NaN: rows that see it are not judged, all others are */
  ATTUNE__FILL_NAN_NEIGHBOURS, /* every other sequence is NaN throughout, and not judged */
  ATTUNE__FILL_REAL            /* the activations of tests/data/minilm */
} attune__fill;

typedef enum attune__used {
  ATTUNE__USED_NULL,
  ATTUNE__USED_FULL,
  ATTUNE__USED_MIXED, /* of a sequence's length: all, none, 1, about half, all but one, by turns */
  ATTUNE__USED_REAL   /* the texts' lengths */
} attune__used;

typedef enum attune__lse { ATTUNE__LSE_DENSE, ATTUNE__LSE_STRIDED, ATTUNE__LSE_NULL } attune__lse;

/* Feature varlen: lengths of the packed sequences. */
typedef enum attune__lengths {
  ATTUNE__LENGTHS_EQUAL, /* the shape's */
  ATTUNE__LENGTHS_MIXED, /* of the shape's: all, none, 1, about half, all but one, by turns */
  ATTUNE__LENGTHS_REAL   /* the texts' */
} attune__lengths;

typedef enum attune__slopes {
  ATTUNE__SLOPES_HEADS, /* the geometric ones of the paper, the same for every sequence */
  ATTUNE__SLOPES_BATCH  /* for each sequence and head, positive, 0 and negative by turns */
} attune__slopes;

typedef enum attune__bias_fill {
  ATTUNE__BIAS_NORMAL,
  ATTUNE__BIAS_INF,   /* a quarter of it -inf, and one row of nothing else */
  ATTUNE__BIAS_LOWEST /* a quarter of it the dtype's lowest number, and one row of nothing else */
} attune__bias_fill;

typedef enum attune__sinks {
  ATTUNE__SINKS_NORMAL,
  ATTUNE__SINKS_MIXED /* -inf, 40, -40 and 0 by turns */
} attune__sinks;

typedef enum attune__bits {
  ATTUNE__BITS_RANDOM, /* every other pair; one row and one key of none */
  ATTUNE__BITS_BLOCKS, /* blocks of 64 x 64 pairs by turns: none, all, random */
  ATTUNE__BITS_NONE
} attune__bits;

/* Axes along which a bias or bit mask is the same: bits of its stride's index. */
enum {
  ATTUNE__OVER_BATCH = 1,
  ATTUNE__OVER_HEADS = 2,
  ATTUNE__OVER_QUERIES = 4,
  ATTUNE__OVER_KEYS = 8
};

typedef struct attune__case {
  attune_shape shape; /* corner: the one that must hold; varlen: lengths of the longest, or more */
  attune__layout layout;
  attune__fill fill;
  attune__used used_q, used_k;
  attune__lse lse;
  int corner_unset;  /* 1: the call names none */
  int default_scale; /* 1: by the flag */
  float scale;
  int layer; /* FILL_REAL: 0 the first, 1 the last */
  int quick; /* among the few most telling */
  /* What the variant's features name, else not looked at: */
  attune__lengths lengths;
  int slack; /* rows of the packed tensors behind the last sequence; the longest sequence is by as
                much shorter than the call says */
  int64_t total_q, total_k; /* 0: what the lengths and slack make */
  float softcap;
  attune__slopes slopes;
  attune__bias_fill bias;
  int bias_over;
  attune__sinks sinks;
  attune__bits bits;
  int bits_over, classes; /* classes 0: the call passes none */
} attune__case;

typedef struct attune__case_list {
  attune__case *item;
  int count, capacity, failed;
} attune__case_list;

typedef struct attune__case_request {
  const attune_variant *variant;
  const attune_pinset *pins; /* may be NULL; every case keeps to them */
  const attune_tile *tiles;  /* of the program's kernels */
  int tile_count;
  attune_corner corner; /* the program's default, 0: none */
  int sm_count;
  int quick;
  int small; /* 1: a sequence of two heads where the case does not say otherwise */
} attune__case_request;

/* ATTUNE_NO_MEMORY. free() the items. */
attune_status attune__cases_make(const attune__case_request *request, attune__case_list *out);
/* "b2 h4/2 q65 k130 causal top_left gapped". */
void attune__case_print(const attune_variant *variant, const attune__case *c, char *out,
                        size_t size);
int attune__case_far(const attune__case *c);

/* What the files that add cases share. */
typedef struct attune__case_maker {
  const attune__case_request *request;
  attune__case base; /* what each case starts from */
  int corners;       /* the corner matters */
  int masked;        /* some rows do not see all keys in use */
  attune_tile big;   /* largest block_m and block_n of the program */
  int32_t max_len_k; /* the most keys that the program takes; 0: any number */
  attune__case_list *list;
} attune__case_maker;
/* Adds a case, held to the pins; with both corners where that makes a difference. */
void attune__case_add(attune__case_maker *m, attune__case c);
void attune__case_add_corners(attune__case_maker *m, attune__case c);
attune__case attune__case_lengths(const attune__case_maker *m, int64_t len_q, int64_t len_k);
attune__case attune__case_heads(attune__case c, int64_t batch, int64_t heads_q, int64_t heads_kv);
/* Those that the variant's features and packed heads ask for. */
void attune__case_add_features(attune__case_maker *m);

/* ---- real data ---------------------------------------------------------------------------------
 */

enum {
  ATTUNE__REAL_LAYERS = 2,
  ATTUNE__REAL_BATCH = 4,
  ATTUNE__REAL_SEQ = 200,
  ATTUNE__REAL_HEADS = 6,
  ATTUNE__REAL_DIM = 32,
  ATTUNE__REAL_LAYER = ATTUNE__REAL_BATCH * ATTUNE__REAL_SEQ * ATTUNE__REAL_HEADS * ATTUNE__REAL_DIM
};

/* As in the files: [layer][batch][seq][head][dim]; NULL members when it was not read. */
typedef struct attune__real {
  float *q, *k, *v, *o;
} attune__real;
/* Whether the variant can be given the real data. */
int attune__real_fits(const attune_variant *variant);
/* ATTUNE_IO, ATTUNE_BAD_FILE (a file of another size), ATTUNE_NO_MEMORY. */
attune_status attune__real_read(const char *folder, attune__real *out);
void attune__real_free(attune__real *real);

/* ---- trials ------------------------------------------------------------------------------------
 */

/* Dense, [batch, heads, seq, dim]; what the reference gave. Lengths are [batch]. */
typedef struct attune__trial {
  attune_reference_problem problem;
  float *q, *k, *v;
  int32_t *len_q, *len_k;   /* of the sequences */
  int32_t *cu_q, *cu_k;     /* varlen: [batch + 1], else NULL */
  int64_t total_q, total_k; /* varlen: rows of the packed tensors */
  int32_t *used_q, *used_k; /* as the call passes them, or NULL */
  int32_t *rows_q, *rows_k; /* in use */
  float *slopes;            /* alibi [batch, heads_q], else NULL, as all of these */
  float *bias;              /* as in memory, NaN between its rows */
  int64_t bias_count;
  float *sinks;
  uint32_t *bits; /* as in memory, all ones between its rows */
  int64_t bits_count;
  uint8_t *classes;
  int64_t classes_count, classes_stride[3];
  int64_t rows; /* batch * heads_q * len_q */
  double *o, *lse;
  double *rounded_o; /* O of rounded standard attention */
  float *file_o;     /* FILL_REAL in fp32: O as the file has it, 0 beyond a text; else NULL */
} attune__trial;
attune_status attune__trial_make(const attune_variant *variant, const attune__case *c,
                                 const attune__real *real, uint64_t seed, int threads,
                                 attune__trial *out);
void attune__trial_free(attune__trial *trial);
/* Its features' tensors, once the lengths are known: ATTUNE_NO_MEMORY. The bias is NaN at the pairs
 * that nothing keeps, or loud. */
attune_status attune__trial_features(attune__trial *trial, const attune__case *c, uint64_t *seed);
/* Whether a row in use keeps the key: by lengths, mask and bits. */
int attune__trial_keeps(const attune__trial *trial, int64_t batch, int64_t head, int64_t i,
                        int64_t j);
/* The next 64 random bits; about N(0, 1), within 3.47. */
uint64_t attune__draw(uint64_t *state);
float attune__draw_normal(uint64_t *state);
/* The keys of a sequence that at least one of its rows sees, as a half-open range. */
void attune__trial_seen(const attune__trial *trial, int64_t batch, int64_t *begin, int64_t *end);

/* A number with three digits, "1.23e-06"; '.' in any locale. */
void attune__put_short(attune__text *text, double value);

/* ---- judgement ---------------------------------------------------------------------------------
 */

/* What a kernel gave, dense and heads first. */
typedef struct attune__outputs {
  float *o;
  float *lse; /* NULL: not asked for */
} attune__outputs;
typedef struct attune__judgement {
  double error, bound;    /* of O */
  double reference_error; /* of rounded standard attention */
  double max_o, max_v;
  int64_t rows;    /* judged */
  char fault[200]; /* "" when all is well */
} attune__judgement;
/* Compares with the trial's references; the bounds are stated in verify_judge.c. */
void attune__judge(const attune__trial *trial, const attune__case *c,
                   const attune__outputs *outputs, attune__judgement *out);

/* ---- arenas ------------------------------------------------------------------------------------
 */

enum { ATTUNE__AXIS_BATCH, ATTUNE__AXIS_SEQ, ATTUNE__AXIS_HEAD, ATTUNE__AXES };

/* A tensor in the arena: bytes to its first element, and strides in elements, as they are on the
 * device and in the host's image of it (they differ in far layouts only). */
typedef struct attune__place {
  size_t offset;
  int element_bytes, dim;
  int64_t extent[ATTUNE__AXES], device[ATTUNE__AXES], image[ATTUNE__AXES];
  /* Its rows: of sequence b `rows[b]` from row first[b] on (NULL: each sequence has its own
   * extent); in a dense tensor `len` of them. */
  const int32_t *first, *rows;
  int64_t batch, len;
} attune__place;

/* A piece of memory, for messages: "K or behind it". */
typedef struct attune__region {
  size_t offset;
  const char *name;
} attune__region;
enum { ATTUNE__MAX_REGIONS = 20 };

/* One device allocation for all tensors of a trial. Far layouts put the rows of one axis into
 * islands that lie `distance` bytes apart; all others have one island. */
typedef struct attune__arena {
  attune__device *device;
  unsigned char *memory; /* on the device */
  unsigned char *image;  /* what is uploaded: islands one after the other */
  size_t island_bytes, distance;
  int islands;
  attune__place q, k, v, o, lse;
  /* Offsets in the first island. */
  size_t cu_q, cu_k, used_q, used_k, slopes, bias, sinks, bits, classes;
  size_t workspace, workspace_bytes;
  attune__region region[ATTUNE__MAX_REGIONS]; /* by offset */
  int region_count;
} attune__arena;

/* ATTUNE_NO_MEMORY: the host's or the device's. The arena points into the trial. */
attune_status attune__arena_make(attune__device *device, const attune__case *c,
                                 const attune__trial *trial, size_t workspace_bytes,
                                 attune__arena *out);
void attune__arena_free(attune__arena *arena);
void attune__arena_args(const attune__arena *arena, const attune__case *c,
                        const attune__trial *trial, attune_attn_args *args);
attune_status attune__arena_upload(const attune__arena *arena);
attune_status attune__arena_download(const attune__arena *arena, unsigned char *image);
/* Copies the rows in use of O (elements of dtype_out) and LSE out of a downloaded image, dense and
 * heads first, and puts poison in their place; then the image must equal arena->image. lse may be
 * NULL. */
void attune__arena_take(const attune__arena *arena, unsigned char *image, void *o, float *lse);
/* What lies at a byte of the image: "in K or behind it". */
const char *attune__arena_region(const attune__arena *arena, size_t at);

#endif
