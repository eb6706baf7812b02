/* The quantizer's dequantization against that of the `gguf` package (golden/quant_make_golden.py), bit for bit.
 */
#include <stdint.h>

#include "base/bytes.h"
#include "check.h"
#include "quant/read/dequantize.h"

enum { WEIGHTS = 512, MOST_BYTES = 2048 };

/* One tensor of the golden file, read as one row, as two, and in pieces. */
static void compare(uint32_t type, const uint8_t *data, uint32_t bytes, const float *expected)
{
    float out[WEIGHTS];
    const source_type_info *about = source_type_about((source_type)type);
    CHECK_MSG(WEIGHTS / about->block * about->bytes == bytes, "%s: %u bytes", about->name, bytes);
    source_tensor t = {.type = (source_type)type, .rows = 1, .cols = WEIGHTS, .data = data, .row_bytes = bytes};
    source_dequantize(&t, 0, 0, WEIGHTS, out);
    for (int i = 0; i < WEIGHTS; i++)
        CHECK_MSG(memcmp(&out[i], &expected[i], 4) == 0, "%s: weight %d is %a, expected %a", about->name, i,
                  (double)out[i], (double)expected[i]);
    memset(out, 0xff, sizeof out);
    source_dequantize(&t, 0, 256, 256, out);
    CHECK(memcmp(out, expected + 256, 256 * sizeof *out) == 0);
    t.rows = 2;
    t.cols = 256;
    t.row_bytes = bytes / 2;
    memset(out, 0xff, sizeof out);
    source_dequantize(&t, 1, 0, 256, out);
    CHECK(memcmp(out, expected + 256, 256 * sizeof *out) == 0);
}

static void golden(void)
{
    static float expected[WEIGHTS];
    static uint8_t data[MOST_BYTES + 1];
    uint32_t head[3];
    unsigned seen = 0;
    FILE *f = fopen(MK_TEST_DATA "/golden/quant_dequantize.bin", "rb");
    CHECK_MSG(f != NULL, "cannot open golden/quant_dequantize.bin");
    while (f && fread(head, sizeof head, 1, f) == 1) {
        CHECK(head[0] <= SOURCE_Q6_K && head[1] == WEIGHTS && head[2] <= MOST_BYTES);
        if (head[1] != WEIGHTS || head[2] > MOST_BYTES)
            break;
        CHECK(fread(data + 1, 1, head[2], f) == head[2]); /* at an odd address */
        CHECK(fread(expected, sizeof expected, 1, f) == 1);
        compare(head[0], data + 1, head[2], expected);
        seen |= 1u << head[0];
    }
    CHECK(seen == 0x7e);
    if (f)
        fclose(f);
}

static void float32(void)
{
    float weights[WEIGHTS], out[WEIGHTS];
    for (int i = 0; i < WEIGHTS; i++)
        weights[i] = (float)i * 0.37f - 70;
    source_tensor t = {.type = SOURCE_F32,
                       .rows = 1,
                       .cols = WEIGHTS,
                       .data = (const uint8_t *)(const void *)weights,
                       .row_bytes = sizeof weights};
    source_dequantize(&t, 0, 0, WEIGHTS, out);
    CHECK(memcmp(out, weights, sizeof out) == 0);
}

/* Groups run on over the ends of rows. */
static void int8_groups(void)
{
    enum { ROWS = 4, COLS = 40, GROUP = 32 };
    uint8_t codes[ROWS * COLS];
    float scales[ROWS * COLS / GROUP], out[COLS];
    for (int i = 0; i < ROWS * COLS; i++)
        codes[i] = (uint8_t)(i * 37);
    for (int i = 0; i < ROWS * COLS / GROUP; i++)
        scales[i] = 0.5f + (float)i;
    source_tensor t = {.type = SOURCE_I8_GROUP,
                       .rows = ROWS,
                       .cols = COLS,
                       .data = codes,
                       .row_bytes = COLS,
                       .group_scales = (const uint8_t *)(const void *)scales,
                       .group_size = GROUP};
    for (int row = 0; row < ROWS; row++) {
        source_dequantize(&t, (uint64_t)row, 0, COLS, out);
        for (int i = 0; i < COLS; i++) {
            int at = row * COLS + i;
            CHECK(out[i] == (float)(int8_t)codes[at] * scales[at / GROUP]);
        }
    }
}

int main(void)
{
    golden();
    float32();
    int8_groups();
    return check_end();
}
