/* neon_loops.h - the three inner loops of the neon set in assembly, for 64-bit ARM. neon.c has them in
 * intrinsics too: as the reference, for odd remainders and for 32-bit ARM.
 *
 * Why assembly: the in-order Cortex-A53 starts one 128-bit operation a cycle and gives its result six
 * cycles later; compilers put dependent operations closer than that. Here each step of a block is done
 * for all eight products in turn, so that eight independent operations lie between any two dependent
 * ones, and loads stand together, because in the model a load after an arithmetic operation waits for it.
 *
 * Cycles by llvm-mca 19 (its bound in brackets), by gcc 12 from the intrinsics / here:
 *                                    Cortex-A53        Cortex-A72 (cortex-a57)
 *     q4, 128 weights                68 / 54 (40)      33 / 28 (26)
 *     q8, 128 weights                41 / 28 (24)      16 / 16 (16)
 *     tile, 256 multiply-adds        82 / 57 (48)      32 / 32 (32)
 */
#ifndef MK_KERNELS_NEON_LOOPS_H
#define MK_KERNELS_NEON_LOOPS_H

#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>

/* clang-format off */
#define ZERO(d) "movi v" #d ".4s, #0\n"
#define AND(d, a, b) "and v" #d ".16b, v" #a ".16b, v" #b ".16b\n"
#define SHIFT(d, a) "ushr v" #d ".16b, v" #a ".16b, #4\n"
#define LOOKUP(d, table, index) "tbl v" #d ".16b, {v" #table ".16b}, v" #index ".16b\n"
#define MUL(d, a, b) "smull v" #d ".8h, v" #a ".8b, v" #b ".8b\n"
#define MUL_ADD(d, a, b) "smlal2 v" #d ".8h, v" #a ".16b, v" #b ".16b\n"
#define PAIR_ADD(d, a) "sadalp v" #d ".4s, v" #a ".8h\n"
#define ADD(d, a, b) "add v" #d ".4s, v" #a ".4s, v" #b ".4s\n"
#define ADD_PAIRS(d, a, b) "addp v" #d ".4s, v" #a ".4s, v" #b ".4s\n"
#define LOAD4(a, b, c, d, from) "ld1 {v" #a ".16b, v" #b ".16b, v" #c ".16b, v" #d ".16b}, [" from "]\n"

/* One block of q4: tables v0-3, codes v4-7, activations in xl and xh, sums v8-15. What comes next
 * is loaded as soon as its registers are free. */
#define Q4_TABLES(p0, p1, p2, p3)                                                            \
    "ldrb %w[i0], [%[picks], #" #p0 "]\n ldrb %w[i1], [%[picks], #" #p1 "]\n"                \
    "ldrb %w[i2], [%[picks], #" #p2 "]\n ldrb %w[i3], [%[picks], #" #p3 "]\n"
#define Q4_BLOCK(xl, xh, load_x, load_codes)                                                 \
    "ldr q0, [%[tables], %x[i0], lsl #4]\n ldr q1, [%[tables], %x[i1], lsl #4]\n"            \
    "ldr q2, [%[tables], %x[i2], lsl #4]\n ldr q3, [%[tables], %x[i3], lsl #4]\n"            \
    AND(16, 4, 28) AND(17, 5, 28) AND(18, 6, 28) AND(19, 7, 28)                              \
    SHIFT(20, 4) SHIFT(21, 5) SHIFT(22, 6) SHIFT(23, 7)                                      \
    LOOKUP(16, 0, 16) LOOKUP(17, 1, 17) LOOKUP(18, 2, 18) LOOKUP(19, 3, 19)                  \
    LOOKUP(20, 0, 20) LOOKUP(21, 1, 21) LOOKUP(22, 2, 22) LOOKUP(23, 3, 23)                  \
    MUL(0, 16, xl) MUL(1, 17, xl) MUL(2, 18, xl) MUL(3, 19, xl)                              \
    MUL(4, 20, xh) MUL(5, 21, xh) MUL(6, 22, xh) MUL(7, 23, xh)                              \
    MUL_ADD(0, 16, xl) MUL_ADD(1, 17, xl) MUL_ADD(2, 18, xl) MUL_ADD(3, 19, xl)              \
    MUL_ADD(4, 20, xh) MUL_ADD(5, 21, xh) MUL_ADD(6, 22, xh) MUL_ADD(7, 23, xh)              \
    load_x                                                                                   \
    PAIR_ADD(12, 4) PAIR_ADD(13, 5) PAIR_ADD(14, 6) PAIR_ADD(15, 7)                          \
    load_codes                                                                               \
    PAIR_ADD(8, 0) PAIR_ADD(9, 1) PAIR_ADD(10, 2) PAIR_ADD(11, 3)
/* clang-format on */

#define VECTORS_0_TO_27                                                                                        \
    "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15",      \
        "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27"

/* Sums of the products of four rows of q4 with x over `pairs` > 0 pairs of blocks. What is loaded ahead
 * in the last round is the beginning again. */
static inline int32x4_t mk_neon_loop_q4(const uint8_t *codes, const uint8_t *picks, const int8_t *tables,
                                        const int8_t *x, size_t pairs)
{
    const uint8_t *first_codes = codes, *second;
    const int8_t *first_x = x;
    uint64_t i0, i1, i2, i3;
    int32x4_t sums;
    /* clang-format off */
    __asm__ volatile(
        "movi v28.16b, #15\n"
        ZERO(8) ZERO(9) ZERO(10) ZERO(11) ZERO(12) ZERO(13) ZERO(14) ZERO(15)
        LOAD4(4, 5, 6, 7, "%[codes]")
        LOAD4(24, 25, 26, 27, "%[x]")
        MK_MARK_TEXT("gemv_q4") "1:\n"
        Q4_TABLES(0, 1, 2, 3)
        "subs %[pairs], %[pairs], #1\n"
        "add %[second], %[codes], #64\n"
        "add %[x], %[x], #64\n"
        "add %[codes], %[codes], #128\n"
        "csel %[x], %[first_x], %[x], eq\n"
        "csel %[codes], %[first_codes], %[codes], eq\n"
        Q4_BLOCK(24, 25, , LOAD4(4, 5, 6, 7, "%[second]"))
        Q4_TABLES(4, 5, 6, 7)
        "add %[picks], %[picks], #8\n"
        Q4_BLOCK(26, 27, LOAD4(24, 25, 26, 27, "%[x]"), LOAD4(4, 5, 6, 7, "%[codes]"))
        "b.ne 1b\n"
        ADD(8, 8, 12) ADD(9, 9, 13) ADD(10, 10, 14) ADD(11, 11, 15)
        ADD_PAIRS(8, 8, 9) ADD_PAIRS(10, 10, 11)
        "addp %[sums].4s, v8.4s, v10.4s\n"
        : [codes] "+&r"(codes), [picks] "+&r"(picks), [x] "+&r"(x), [pairs] "+&r"(pairs),
          [second] "=&r"(second), [i0] "=&r"(i0), [i1] "=&r"(i1), [i2] "=&r"(i2), [i3] "=&r"(i3),
          [sums] "=w"(sums)
        : [tables] "r"(tables), [first_codes] "r"(first_codes), [first_x] "r"(first_x)
        : VECTORS_0_TO_27, "v28", "cc", "memory");
    /* clang-format on */
    return sums;
}

/* The same for q8. */
static inline int32x4_t mk_neon_loop_q8(const int8_t *codes, const int8_t *x, size_t pairs)
{
    const int8_t *first_codes = codes, *first_x = x, *a, *b, *c;
    int32x4_t sums;
    /* clang-format off */
    __asm__ volatile(
        "add %[a], %[codes], #64\n"
        ZERO(8) ZERO(9) ZERO(10) ZERO(11) ZERO(12) ZERO(13) ZERO(14) ZERO(15)
        LOAD4(0, 1, 2, 3, "%[codes]")
        LOAD4(24, 25, 26, 27, "%[x]")
        LOAD4(4, 5, 6, 7, "%[a]")
        MK_MARK_TEXT("gemv_q8") "1:\n"
        "subs %[pairs], %[pairs], #1\n"
        "add %[b], %[codes], #192\n"
        "add %[a], %[codes], #128\n"
        "add %[codes], %[codes], #256\n"
        "add %[x], %[x], #64\n"
        "csel %[x], %[first_x], %[x], eq\n"
        "csel %[codes], %[first_codes], %[codes], eq\n"
        "add %[c], %[codes], #64\n"
        MUL(16, 0, 24) MUL(17, 1, 25) MUL(18, 2, 24) MUL(19, 3, 25)
        MUL(20, 4, 24) MUL(21, 5, 25) MUL(22, 6, 24) MUL(23, 7, 25)
        MUL_ADD(16, 0, 24) MUL_ADD(17, 1, 25) MUL_ADD(18, 2, 24) MUL_ADD(19, 3, 25)
        MUL_ADD(20, 4, 24) MUL_ADD(21, 5, 25)
        LOAD4(0, 1, 2, 3, "%[a]")
        MUL_ADD(22, 6, 24) MUL_ADD(23, 7, 25)
        PAIR_ADD(8, 16) PAIR_ADD(9, 17) PAIR_ADD(10, 18) PAIR_ADD(11, 19)
        LOAD4(4, 5, 6, 7, "%[b]")
        PAIR_ADD(12, 20) PAIR_ADD(13, 21) PAIR_ADD(14, 22) PAIR_ADD(15, 23)
        MUL(16, 0, 26) MUL(17, 1, 27) MUL(18, 2, 26) MUL(19, 3, 27)
        MUL(20, 4, 26) MUL(21, 5, 27) MUL(22, 6, 26) MUL(23, 7, 27)
        MUL_ADD(16, 0, 26) MUL_ADD(17, 1, 27) MUL_ADD(18, 2, 26) MUL_ADD(19, 3, 27)
        LOAD4(0, 1, 2, 3, "%[codes]")
        MUL_ADD(20, 4, 26) MUL_ADD(21, 5, 27) MUL_ADD(22, 6, 26) MUL_ADD(23, 7, 27)
        LOAD4(4, 5, 6, 7, "%[c]")
        PAIR_ADD(8, 16) PAIR_ADD(9, 17) PAIR_ADD(10, 18) PAIR_ADD(11, 19)
        LOAD4(24, 25, 26, 27, "%[x]")
        PAIR_ADD(12, 20) PAIR_ADD(13, 21) PAIR_ADD(14, 22) PAIR_ADD(15, 23)
        "b.ne 1b\n"
        ADD(8, 8, 9) ADD(10, 10, 11) ADD(12, 12, 13) ADD(14, 14, 15) /* the halves of each row */
        ADD_PAIRS(8, 8, 10) ADD_PAIRS(12, 12, 14)
        "addp %[sums].4s, v8.4s, v12.4s\n"
        : [codes] "+&r"(codes), [x] "+&r"(x), [pairs] "+&r"(pairs), [a] "=&r"(a), [b] "=&r"(b), [c] "=&r"(c),
          [sums] "=w"(sums)
        : [first_codes] "r"(first_codes), [first_x] "r"(first_x)
        : VECTORS_0_TO_27, "cc", "memory");
    /* clang-format on */
    return sums;
}

/* Sums of four rows by four tokens over `steps` > 0 steps of 16 k: w [steps][4 rows][16], tokens x_stride
 * apart, sums [token][row]. */
static inline void mk_neon_loop_tile(const int8_t *w, const int8_t *x, size_t x_stride, size_t steps,
                                     int32_t *sums)
{
    const int8_t *first_w = w, *x1 = x + x_stride, *x2 = x1 + x_stride, *x3 = x2 + x_stride;
    size_t at = 0;
    /* clang-format off */
    __asm__ volatile(
        ZERO(0) ZERO(1) ZERO(2) ZERO(3) ZERO(4) ZERO(5) ZERO(6) ZERO(7)
        ZERO(8) ZERO(9) ZERO(10) ZERO(11) ZERO(12) ZERO(13) ZERO(14) ZERO(15)
        LOAD4(16, 17, 18, 19, "%[w]")
        MK_MARK_TEXT("tile") "1:\n"
        "ldr q20, [%[x0], %[at]]\n ldr q21, [%[x1], %[at]]\n"
        "subs %[steps], %[steps], #1\n"
        "ldr q22, [%[x2], %[at]]\n ldr q23, [%[x3], %[at]]\n"
        "add %[at], %[at], #16\n"
        "add %[w], %[w], #64\n"
        "csel %[w], %[first_w], %[w], eq\n"
        MUL(24, 16, 20) MUL(25, 17, 20) MUL(26, 18, 20) MUL(27, 19, 20)
        MUL(28, 16, 21) MUL(29, 17, 21) MUL(30, 18, 21) MUL(31, 19, 21)
        MUL_ADD(24, 16, 20) MUL_ADD(25, 17, 20) MUL_ADD(26, 18, 20) MUL_ADD(27, 19, 20)
        MUL_ADD(28, 16, 21) MUL_ADD(29, 17, 21) MUL_ADD(30, 18, 21) MUL_ADD(31, 19, 21)
        PAIR_ADD(0, 24) PAIR_ADD(1, 25) PAIR_ADD(2, 26) PAIR_ADD(3, 27)
        PAIR_ADD(4, 28) PAIR_ADD(5, 29) PAIR_ADD(6, 30) PAIR_ADD(7, 31)
        MUL(24, 16, 22) MUL(25, 17, 22) MUL(26, 18, 22) MUL(27, 19, 22)
        MUL(28, 16, 23) MUL(29, 17, 23) MUL(30, 18, 23) MUL(31, 19, 23)
        MUL_ADD(24, 16, 22) MUL_ADD(25, 17, 22) MUL_ADD(26, 18, 22) MUL_ADD(27, 19, 22)
        MUL_ADD(28, 16, 23) MUL_ADD(29, 17, 23) MUL_ADD(30, 18, 23) MUL_ADD(31, 19, 23)
        LOAD4(16, 17, 18, 19, "%[w]")
        PAIR_ADD(8, 24) PAIR_ADD(9, 25) PAIR_ADD(10, 26) PAIR_ADD(11, 27)
        PAIR_ADD(12, 28) PAIR_ADD(13, 29) PAIR_ADD(14, 30) PAIR_ADD(15, 31)
        "b.ne 1b\n"
        ADD_PAIRS(0, 0, 1) ADD_PAIRS(2, 2, 3) ADD_PAIRS(4, 4, 5) ADD_PAIRS(6, 6, 7)
        ADD_PAIRS(8, 8, 9) ADD_PAIRS(10, 10, 11) ADD_PAIRS(12, 12, 13) ADD_PAIRS(14, 14, 15)
        ADD_PAIRS(0, 0, 2) ADD_PAIRS(1, 4, 6) ADD_PAIRS(2, 8, 10) ADD_PAIRS(3, 12, 14)
        "st1 {v0.4s, v1.4s, v2.4s, v3.4s}, [%[sums]]\n"
        : [w] "+&r"(w), [at] "+&r"(at), [steps] "+&r"(steps)
        : [first_w] "r"(first_w), [x0] "r"(x), [x1] "r"(x1), [x2] "r"(x2), [x3] "r"(x3), [sums] "r"(sums)
        : VECTORS_0_TO_27, "v28", "v29", "v30", "v31", "cc", "memory");
    /* clang-format on */
}

#undef ZERO
#undef AND
#undef SHIFT
#undef LOOKUP
#undef MUL
#undef MUL_ADD
#undef PAIR_ADD
#undef ADD
#undef ADD_PAIRS
#undef LOAD4
#undef Q4_TABLES
#undef Q4_BLOCK

#endif
