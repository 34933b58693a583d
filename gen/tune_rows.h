/* tune_rows.h - measured rows: which tile was fastest for a variant and shape class, on what.
 *
 *   tune_rows.c        values: find, put, merge
 *   tune_rows_read.c   YAML -> rows; what is wrong is reported with line and column
 *   tune_rows_write.c  rows -> YAML, one row a line; merged into a file under a lock, by rename
 *   tune_rows_db.c     the rows that come with attune and the user's, and what may be used
 *
 * Files: specs/tuned/<gpu>.yaml, which travel inside the program, and <store>/tuned/<gpu>.yaml.
 * A row holds for one GPU model only: name, SMs and memory clock, arch, kernel ABI and NVRTC build
 * are its key, and all must be the same. A provisional row (measured while something disturbed) is
 * kept and shown, never used, and tuned again. */
#ifndef ATTUNE_TUNE_ROWS_H
#define ATTUNE_TUNE_ROWS_H

#include "model.h"
#include "text.h"

/* ---- values ------------------------------------------------------------------------------------
 */

/* Of what a row speaks. */
typedef struct attune__tuned_key {
  char gpu[128];  /* as the driver names it: "NVIDIA H200" */
  int sms;        /* a MIG slice has fewer */
  int memory_mhz; /* rounded to 100; 0: the driver does not tell */
  uint32_t arch;  /* of the code */
  uint32_t abi;   /* ATTUNE_ABI */
  char nvrtc[32]; /* "nvrtc 13.0.88" */
} attune__tuned_key;

/* A memory clock as keys have it: in whole hundreds. */
static inline int attune__memory_class(int mhz) {
  return (mhz + 50) / 100 * 100;
}

/* How a program does it: the tile of each kernel, in launch order. */
typedef struct attune__tiles {
  attune_tile tile[ATTUNE_MAX_PARTS];
  int count;
} attune__tiles;
/* "wgmma_m128n128s2", of several kernels joined by '+'; and back, ATTUNE_INVALID. */
void attune__tiles_print(const attune__tiles *tiles, attune__text *out);
attune_status attune__tiles_parse(const char *text, attune__tiles *out);
int attune__tiles_same(const attune__tiles *a, const attune__tiles *b);

/* Milliseconds of a call: median, and the interval that holds it (attune__bench_interval). */
typedef struct attune__tuned_time {
  double median, low, high;
} attune__tuned_time;

enum { ATTUNE__DATE_MAX = 24, ATTUNE__WHY_MAX = 120 };

typedef struct attune__tuned_row {
  attune__tuned_key key;
  attune_variant variant; /* part 0 */
  attune_class cls;
  attune__tiles tiles;     /* the winner */
  attune__tuned_time time; /* of it */
  attune__tiles over;      /* the planner's choice, timed in the same rounds; may be the winner */
  attune__tuned_time over_time;
  attune_shape shape; /* that both were timed on */
  int rounds, calls;  /* samples, and calls in each */
  int tried;          /* candidates timed */
  int l2_cold;        /* 1: no tensor of a call was left in L2 by the one before */
  int driver;         /* CUDA version of the driver, 13000 */
  int provisional;
  char date[ATTUNE__DATE_MAX]; /* "2026-11-30T03:00:47Z" */
  char why[ATTUNE__WHY_MAX];   /* it is provisional */
} attune__tuned_row;

/* What became of a kernel on a GPU model under a driver. */
typedef enum attune__mark_kind {
  ATTUNE__MARK_PASSED = 1, /* its results were right */
  ATTUNE__MARK_WRONG,      /* they were not: a defect of attune */
  ATTUNE__MARK_FAULT,      /* the driver reported an error, or the process died */
  ATTUNE__MARK_HANG        /* it did not end in time */
} attune__mark_kind;
const char *attune__mark_name(attune__mark_kind kind); /* "passed" */

typedef struct attune__tuned_mark {
  attune__tuned_key key;
  char kernel[ATTUNE_NAME_MAX];
  char digest[17]; /* first 16 digits of its store key: the kernel's text, not its name alone */
  int driver;
  attune__mark_kind kind;
  char date[ATTUNE__DATE_MAX];
  char why[ATTUNE__WHY_MAX];
} attune__tuned_mark;

typedef struct attune__tuned {
  attune__tuned_row *row; /* sorted by key, variant name, class */
  int count;
  attune__tuned_mark *mark; /* sorted by key, kernel, digest, driver */
  int mark_count;
} attune__tuned;

void attune__tuned_free(attune__tuned *tuned);
/* Adds, or takes the place of the row (mark) of the same key, variant and class (kernel, digest
 * and driver) where it is better: measured before provisional, then the later. ATTUNE_NO_MEMORY. */
attune_status attune__tuned_put(attune__tuned *tuned, const attune__tuned_row *row);
attune_status attune__tuned_put_mark(attune__tuned *tuned, const attune__tuned_mark *mark);
attune_status attune__tuned_merge(attune__tuned *into, const attune__tuned *from);
/* Adds to `into` what is not older than the date. */
attune_status attune__tuned_since(const attune__tuned *from, const char *date, attune__tuned *into);
int attune__tuned_key_same(const attune__tuned_key *a, const attune__tuned_key *b);
int attune__tuned_key_before(const attune__tuned_key *a, const attune__tuned_key *b); /* by order */
/* The row of exactly that class, provisional or not; NULL. */
const attune__tuned_row *attune__tuned_find(const attune__tuned *tuned,
                                            const attune__tuned_key *key,
                                            const attune_variant *variant, attune_class cls);
const attune__tuned_mark *attune__tuned_find_mark(const attune__tuned *tuned,
                                                  const attune__tuned_key *key, const char *kernel,
                                                  const char *digest, int driver);
/* How much faster the winner is than what it is over, in percent, and the ends of that: from the
 * worst and the best that the intervals allow. */
void attune__tuned_gain(const attune__tuned_row *row, double *gain, double *low, double *high);

/* ---- files -------------------------------------------------------------------------------------
 */

enum { ATTUNE__TUNED_MAX_BYTES = 8 << 20 };

/* Text -> rows. ATTUNE_BAD_SPEC: `errors` has the printed diagnostics, `out` nothing. */
attune_status attune__tuned_parse(const char *name, const char *bytes, size_t size,
                                  attune__tuned *out, attune__text *errors);
/* The same for a file; one that is not there has no rows. */
attune_status attune__tuned_read(const char *path, attune__tuned *out, attune__text *errors);
/* Rows as the text of a file; reads back to the same. */
void attune__tuned_print(const attune__tuned *tuned, attune__text *out);
/* Merges into the file: under a lock it is read again, merged, written beside and renamed, so that
 * writers at once lose nothing and a killed one leaves the file as it was. A file that cannot be
 * read is left as it is: ATTUNE_BAD_SPEC. */
attune_status attune__tuned_save(const char *path, const attune__tuned *add, attune__text *errors);
/* "<root>/tuned/nvidia-h200.yaml", malloc'ed; NULL without memory. */
char *attune__tuned_path(const char *root, const char *gpu);

/* ---- what serves -------------------------------------------------------------------------------
 */

typedef struct attune__tuned_db {
  attune__tuned shipped, own;
} attune__tuned_db;

/* Reads the rows that come with attune and those under a store's root (NULL: the usual one, "":
 * none). A file that cannot be used is left out: `messages` then says which and why. Fails for want
 * of memory alone. */
attune_status attune__tuned_db_open(const char *root, attune__tuned_db *out,
                                    attune__text *messages);
void attune__tuned_db_close(attune__tuned_db *db);
/* The row to use for the class, the user's before the shipped; NULL when none is measured or its
 * tiles are not legal any more: `why` (may be NULL) then says so, else is "". */
const attune__tuned_row *attune__tuned_row_for(const attune__tuned_db *db,
                                               const attune__tuned_key *key,
                                               const attune_variant *variant, attune_class cls,
                                               uint32_t budget, char *why, size_t size);
/* Whether there is any row of a GPU of that name, whatever the rest of its key; if not, `names`
 * gets those that there are, "no GPU" when none. */
int attune__tuned_has_gpu(const attune__tuned_db *db, const char *gpu, attune__text *names);
/* The key of rows for code of `arch` made here for a GPU that is not here, by a word of its name
 * ("H200"; the whole name also serves); of several the one with most SMs. ATTUNE_NOT_FOUND: the
 * message names those that there are. */
attune_status attune__tuned_key_named(const attune__tuned_db *db, const char *gpu, uint32_t arch,
                                      attune__tuned_key *out);

#endif
