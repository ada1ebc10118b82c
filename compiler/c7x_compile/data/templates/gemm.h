/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix product C[rows][columns] = epilogue(A[rows][depth] * B).
 *
 * B is packed at compile time as [ceil(columns / 16)][depth][16], padded with zeros: one format for
 * every instruction set. Every dimension is a literal at the call, so that inlining leaves loops of
 * known length. A tile of C stays in registers while the depth passes; the depth is cut into parts
 * whose share of B stays in the first cache, the rows into blocks whose share of A stays in the
 * second.
 */
#define GEMM_BLOCK 16
/* Tile: at most TILE_BLOCKS blocks of 16 columns, and as many rows as leave registers for operands.
 */
#if LANES == 16 /* 32 registers: 6x64, 8x48, 12x32, 12x16 */
#define TILE_BLOCKS 4
#define TILE_ROWS(blocks) ((blocks) == 4 ? 6 : (blocks) == 3 ? 8 : 12)
#elif LANES == 8 || defined(__aarch64__) /* 16 registers of 8 lanes, or 32 of 4 */
#define TILE_BLOCKS 1
#define TILE_ROWS(blocks) (6 * (blocks))
#else /* 16 of 4 lanes, of which products without FMA need another */
#define TILE_BLOCKS 1
#define TILE_ROWS(blocks) (2 * (blocks))
#endif
#define TILE_ROWS_MAX 12
/* Of the loop over the depth: a wide tile hides what the loop itself costs. */
#if LANES == 16
#define GEMM_UNROLL
#else
#define GEMM_UNROLL FAST_UNROLL_TWICE
#endif
#define PREFETCHING_BLOCKS 4 /* narrower tiles have no load to spare */
#define BLOCK_VECTORS (GEMM_BLOCK / LANES)
#define TILE_VECTORS (TILE_BLOCKS * BLOCK_VECTORS)

#define GEMM_PART_MAX 576     /* depth of one part */
#define GEMM_A_FLOATS 65536   /* 256 KB */
#define GEMM_ROWS_MULTIPLE 24 /* of every TILE_ROWS */
#define GEMM_PARTS(depth) (((depth) + GEMM_PART_MAX - 1) / GEMM_PART_MAX)
#define GEMM_PART(depth) (((depth) + GEMM_PARTS(depth) - 1) / GEMM_PARTS(depth))
#define GEMM_LAST(rows, block) (((rows)-1) % (block) + 1) /* of blocks of rows */
#define GEMM_STRIPES(columns)                                                                      \
    (((columns) + TILE_BLOCKS * GEMM_BLOCK - 1) / (TILE_BLOCKS * GEMM_BLOCK))
/* Whether tasks share a product by its columns: of more rows they would read all of B each. */
#define GEMM_BY_COLUMNS(rows, columns)                                                             \
    ((rows) < 4 * GEMM_ROWS_MULTIPLE ? GEMM_STRIPES(columns) > 1                                   \
                                     : (columns) > (rows) && GEMM_STRIPES(columns) >= 8)

/* acc[i][j] += a[i] * b[j] over `part` steps of the depth. The array has a fixed size: one of
 * rows x vectors would never go to registers. soon: of `fetches` blocks the `part` rows that are
 * wanted next. */
FAST_INLINE void gemm_accumulate(vec acc[TILE_ROWS_MAX][TILE_VECTORS], const int rows,
                                 const int blocks, const int depth, const int part,
                                 const long a_stride, const float *a, const float *b,
                                 const int fetches, const float *soon)
{
    int i, j, k;
    GEMM_UNROLL
    for (k = 0; k < part; ++k) {
        vec row[TILE_VECTORS];
        FAST_UNROLL
        for (j = 0; j < fetches; ++j) {
            FAST_PREFETCH(soon + ((long)j * depth + k) * GEMM_BLOCK);
        }
        FAST_UNROLL
        for (j = 0; j < blocks * BLOCK_VECTORS; ++j) {
            row[j] = vec_load(b + (long)(j / BLOCK_VECTORS) * depth * GEMM_BLOCK +
                              (long)k * GEMM_BLOCK + j % BLOCK_VECTORS * LANES);
        }
        FAST_UNROLL
        for (i = 0; i < rows; ++i) {
            vec value = vec_splat(a[i * a_stride + k]);
            FAST_UNROLL
            for (j = 0; j < blocks * BLOCK_VECTORS; ++j) {
                acc[i][j] += value * row[j];
            }
        }
    }
}

/* One tile of C, from `column` on. begins: at zero, else at what C holds; ends: applies the
 * epilogue. */
FAST_INLINE void gemm_tile(const int rows, const int blocks, const int columns, const int depth,
                           const int begins, const int ends, const int part, const long a_stride,
                           const long c_stride, long row, int column, const float *a,
                           const float *b, const int fetches, const float *soon, float *c,
                           epilogue_fn epilogue, const float *const *operands)
{
    vec acc[TILE_ROWS_MAX][TILE_VECTORS];
    int i, j;
    FAST_UNROLL
    for (i = 0; i < rows; ++i) {
        FAST_UNROLL
        for (j = 0; j < blocks * BLOCK_VECTORS; ++j) {
            int at = column + LANES * j;
            acc[i][j] = vec_splat(0.0f);
            if (!begins && at < columns) {
                acc[i][j] = vec_load_column(c + (row + i) * c_stride, columns, at);
            }
        }
    }
    gemm_accumulate(acc, rows, blocks, depth, part, a_stride, a, b, fetches, soon);
    FAST_FENCE();
    FAST_UNROLL
    for (i = 0; i < rows; ++i) {
        FAST_UNROLL
        for (j = 0; j < blocks * BLOCK_VECTORS; ++j) {
            int at = column + LANES * j;
            if (at < columns) {
                vec value = ends ? epilogue(acc[i][j], row + i, at, operands) : acc[i][j];
                vec_store_column(c + (row + i) * c_stride, columns, at, value);
            }
        }
    }
}

/* What tile number `number` of a stripe fetches ahead: `fetches` blocks of the next stripe each,
 * and when those are done its own again. Behind the last stripe it may be anything: no fetch
 * faults. */
FAST_INLINE const float *gemm_soon(const int blocks, const int depth, const int fetches, int number,
                                   const float *b)
{
    const int block = number * fetches;
    return b + (long)(block < blocks ? blocks + block : 0) * depth * GEMM_BLOCK;
}

/* A stripe of `blocks` blocks of columns. count: rows from `row` on; a points at the first of them.
 * last: rows of the last block, the only one whose rows may split into no whole tiles; as few as
 * `least` where it is shared. The rest is spread over tiles of one row less, if there are enough: a
 * tile of few rows would wait for its own sums. */
FAST_INLINE void gemm_stripe(const int blocks, const int last, const int least, const int columns,
                             const int depth, const int begins, const int ends, const int part,
                             const long a_stride, const long c_stride, long row, int count,
                             int column, const float *a, const float *b, float *c,
                             epilogue_fn epilogue, const float *const *operands)
{
    const int tile = TILE_ROWS(blocks), rest = last % tile;
    const int spread = rest != 0 ? (tile - rest) * (tile - 1) : 0;
    const int spreads = spread != 0 && spread <= last && (spread <= least || count >= spread);
    const int whole = spreads && count % tile != 0 ? count - spread : count;
    const int tiles = (last + tile - 1) / tile;
    const int fetches = blocks < PREFETCHING_BLOCKS ? 0 : (blocks + tiles - 1) / tiles;
    int i = 0, number = 0;
    for (; i + tile <= whole; i += tile) {
        gemm_tile(tile, blocks, columns, depth, begins, ends, part, a_stride, c_stride, row + i,
                  column, a + i * a_stride, b, fetches,
                  gemm_soon(blocks, depth, fetches, number++, b), c, epilogue, operands);
    }
    if (spreads) {
        for (; i < count; i += tile - 1) {
            gemm_tile(tile - 1, blocks, columns, depth, begins, ends, part, a_stride, c_stride,
                      row + i, column, a + i * a_stride, b, fetches,
                      gemm_soon(blocks, depth, fetches, number++, b), c, epilogue, operands);
        }
    } else if (rest != 0 && i < count) {
        gemm_tile(rest, blocks, columns, depth, begins, ends, part, a_stride, c_stride, row + i,
                  column, a + i * a_stride, b, 0, b, c, epilogue, operands);
    }
}

/* Stripes first_stripe .. end_stripe - 1, for one part of the depth that begins at `from`. */
FAST_INLINE void gemm_part(const int last, const int least, const int columns, const int depth,
                           const int begins, const int ends, int from, const int part,
                           const long a_stride, const long c_stride, long row, int count,
                           int first_stripe, int end_stripe, const float *a, const float *b,
                           float *c, epilogue_fn epilogue, const float *const *operands)
{
    const int blocks = (columns + GEMM_BLOCK - 1) / GEMM_BLOCK, whole = blocks / TILE_BLOCKS;
    const int behind = whole * TILE_BLOCKS;
    const int end_whole = fast_smaller(end_stripe, whole);
    int stripe;
    for (stripe = first_stripe; stripe < end_whole; ++stripe) {
        const int block = stripe * TILE_BLOCKS;
        gemm_stripe(TILE_BLOCKS, last, least, columns, depth, begins, ends, part, a_stride,
                    c_stride, row, count, block * GEMM_BLOCK, a + from,
                    b + ((long)block * depth + from) * GEMM_BLOCK, c, epilogue, operands);
    }
    if (blocks != behind && end_stripe > whole) {
        gemm_stripe(blocks - behind, last, least, columns, depth, begins, ends, part, a_stride,
                    c_stride, row, count, behind * GEMM_BLOCK, a + from,
                    b + ((long)behind * depth + from) * GEMM_BLOCK, c, epilogue, operands);
    }
}

/* `count` rows of C from `row` on, of some stripes, over the whole depth. last: rows of the last
 * such block, or least (gemm_stripe); all others have a multiple of GEMM_ROWS_MULTIPLE. */
FAST_INLINE void gemm_stripes(const int last, const int least, const int columns, const int depth,
                              const long a_stride, const long c_stride, long row, int count,
                              int first_stripe, int end_stripe, const float *a, const float *b,
                              float *c, epilogue_fn epilogue, const float *const *operands)
{
    const int parts = GEMM_PARTS(depth), part = GEMM_PART(depth);
    int k;
    if (parts == 1) {
        gemm_part(last, least, columns, depth, 1, 1, 0, depth, a_stride, c_stride, row, count,
                  first_stripe, end_stripe, a, b, c, epilogue, operands);
        return;
    }
    gemm_part(last, least, columns, depth, 1, 0, 0, part, a_stride, c_stride, row, count,
              first_stripe, end_stripe, a, b, c, epilogue, operands);
    for (k = 1; k < parts - 1; ++k) {
        gemm_part(last, least, columns, depth, 0, 0, k * part, part, a_stride, c_stride, row, count,
                  first_stripe, end_stripe, a, b, c, epilogue, operands);
    }
    gemm_part(last, least, columns, depth, 0, 1, (parts - 1) * part, depth - (parts - 1) * part,
              a_stride, c_stride, row, count, first_stripe, end_stripe, a, b, c, epilogue,
              operands);
}

/* All columns of `count` rows. */
FAST_INLINE void gemm_rows(const int last, const int columns, const int depth, const long a_stride,
                           const long c_stride, long row, int count, const float *a, const float *b,
                           float *c, epilogue_fn epilogue, const float *const *operands)
{
    gemm_stripes(last, last, columns, depth, a_stride, c_stride, row, count, 0,
                 GEMM_STRIPES(columns), a, b, c, epilogue, operands);
}

/* A share of `count` rows, in a product of which the last block has `last` ones: stripes of all
 * rows, or all stripes of some rows. */
FAST_INLINE void gemm_share(const int last, const int most, const int columns, const int depth,
                            const long a_stride, const long c_stride, long row, int count,
                            const float *a, const float *b, float *c, epilogue_fn epilogue,
                            const float *const *operands, const struct fast_share share)
{
    const int stripes = GEMM_STRIPES(columns);
    if (!share.is_split || GEMM_BY_COLUMNS(most, columns)) {
        gemm_stripes(last, last, columns, depth, a_stride, c_stride, row, count,
                     share_from(stripes, share), share_to(stripes, share), a, b, c, epilogue,
                     operands);
    } else {
        const int units = (count + GEMM_ROWS_MULTIPLE - 1) / GEMM_ROWS_MULTIPLE;
        const int from = share_from(units, share) * GEMM_ROWS_MULTIPLE;
        const int to = fast_smaller(share_to(units, share) * GEMM_ROWS_MULTIPLE, count);
        gemm_stripes(last, GEMM_LAST(last, GEMM_ROWS_MULTIPLE), columns, depth, a_stride, c_stride,
                     row + from, to - from, 0, stripes, a + from * a_stride, b, c, epilogue,
                     operands);
    }
}

/* Rows of a block of A: about GEMM_A_FLOATS, and of such a number that the last block is not much
 * smaller than the others, as it reads all of B, too. */
FAST_INLINE int gemm_block(const int rows, const int depth)
{
    const int wish = (GEMM_A_FLOATS / depth / GEMM_ROWS_MULTIPLE + 1) * GEMM_ROWS_MULTIPLE;
    const int blocks = rows < wish ? 1 : (rows + wish / 2) / wish;
    const int each = (rows + blocks - 1) / blocks;
    return (each + GEMM_ROWS_MULTIPLE - 1) / GEMM_ROWS_MULTIPLE * GEMM_ROWS_MULTIPLE;
}

/* a_stride: floats between rows of A; rows may overlap. C has no gaps. */
FAST_INLINE void gemm(const int rows, const int columns, const int depth, const long a_stride,
                      const float *a, const float *b, float *c, epilogue_fn epilogue,
                      const float *const *operands, const struct fast_share share)
{
    const int block = gemm_block(rows, GEMM_PART(depth));
    int row;
    for (row = 0; row < rows; row += block) {
        gemm_share(GEMM_LAST(rows, block), fast_smaller(rows, block), columns, depth, a_stride,
                   columns, row, fast_smaller(block, rows - row), a + row * a_stride, b, c,
                   epilogue, operands, share);
    }
}
