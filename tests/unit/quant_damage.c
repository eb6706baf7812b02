/* Readers on damaged input: every truncation and bit flip of the tiny sources gives a model whose parts all lie
 * inside the file, or an error with a text. The file lies in memory that ends at a page that cannot be read, so
 * reading beyond its end is noticed without sanitizers too. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "quant/convert/plan.h"
#include "quant/convert/tokenizer.h"
#include "quant/read/dequantize.h"
#include "quant/read/gguf.h"
#include "quant/read/llama2c.h"
#include "unit/quant_files.h"

typedef struct guarded {
    uint8_t *end; /* first byte that cannot be read */
    size_t room;
} guarded;

static guarded guarded_memory(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (size + page - 1) / page * page;
    /* shared, so that pages that were released keep their content as those of a file do */
    uint8_t *base = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(base != MAP_FAILED && mprotect(base + room, page, PROT_NONE) == 0);
    return (guarded){base + room, room};
}

enum format { GGUF, GGUF_VOCAB, LLAMA2C, LLAMA2C_TOKENIZER };

static unsigned accepted, refused;

/* Uses all that a model points to. */
static void use_model(const source_model *m, pool *memory, mk_error *err)
{
    static float row[1024];
    image_plan plan;
    const plan_types types = {MKN_Q4, MKN_Q8, MKN_Q8};
    if (m->tensor_count && plan_image(&plan, m, &types, "damaged", memory, err) == MK_OK)
        for (uint32_t i = 0; i < plan.tensor_count; i++) {
            const source_tensor *t = plan.tensors[i].source;
            for (uint64_t r = 0; t && t->cols <= 1024 && r < t->rows; r += t->rows > 8 ? t->rows / 8 : 1)
                source_dequantize(t, r, 0, t->cols, row);
            if (t && t->cols <= 1024)
                source_dequantize(t, t->rows - 1, 0, t->cols, row);
        }
}

static void use_vocab(const source_vocab *v)
{
    uint8_t *section = NULL;
    size_t size;
    char message[256] = "";
    if (v->kind == SOURCE_VOCAB_NONE)
        return;
    if (!convert_tokenizer(v, &section, &size, message, sizeof message))
        CHECK(message[0] != 0);
    free(section);
}

static void read_damaged(const guarded *g, const uint8_t *bytes, size_t size, enum format format,
                         bool with_vocab)
{
    source_model m = {.vocabulary = 512};
    pool memory = {NULL};
    mk_error err = {""};
    memcpy(g->end - size, bytes, size);
    source_map map = {.data = g->end - size, .size = size};
    mk_status status = format == LLAMA2C ? llama2c_read(&m, &map, "damaged", &memory, &err)
                       : format == LLAMA2C_TOKENIZER
                           ? llama2c_read_tokenizer(&m, &map, "damaged", &memory, &err)
                           : gguf_read(&m, &map, "damaged", format == GGUF_VOCAB, &memory, &err);
    if (status == MK_OK) {
        accepted++;
        use_model(&m, &memory, &err);
        if (with_vocab)
            use_vocab(&m.vocab);
    } else {
        refused++;
        CHECK(strncmp(err.text, "damaged: ", 9) == 0);
    }
    pool_free(&memory);
}

static uint64_t random_state = 99;
static size_t random_below(size_t limit)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(random_state >> 33) % limit;
}

static void truncate_everywhere(const guarded *g, const uint8_t *bytes, size_t size, size_t head,
                                enum format format)
{
    for (size_t at = 1; at < head; at += head > 4000 ? 1 + random_below(head / 2000) : 1)
        read_damaged(g, bytes, at, format, false);
    CHECK(accepted == 0);
    if (format != GGUF_VOCAB) { /* which does not care for tensors */
        for (int n = 0; n < 200; n++)
            read_damaged(g, bytes, 1 + random_below(size - 1), format, false);
        read_damaged(g, bytes, size - 1, format, false);
        CHECK(accepted == 0);
    }
    read_damaged(g, bytes, size, format, true);
    CHECK(accepted == 1);
    accepted = 0;
}

/* Bit flips, and fields overwritten by numbers that overflow. */
static void change(const guarded *g, uint8_t *bytes, size_t size, size_t head, enum format format)
{
    static const uint64_t extremes[] = {0,          1,         0x7fffffff, 0x80000000,
                                        0xffffffff, INT64_MAX, UINT64_MAX, 1ull << 40};
    for (int n = 0; n < 6000; n++) {
        uint8_t saved[8];
        size_t at = random_below(n % 4 ? head : 64);
        if (at + 8 > size)
            continue;
        memcpy(saved, bytes + at, 8);
        if (n % 3)
            bytes[at] = (uint8_t)(bytes[at] ^ 1u << random_below(8));
        else
            memcpy(bytes + at, &extremes[random_below(8)], 4 + 4 * random_below(2));
        read_damaged(g, bytes, size, format, n % 8 == 0);
        memcpy(bytes + at, saved, 8);
    }
}

/* head: the bytes that are not weights. */
static void damage(const char *name, size_t head, enum format format)
{
    size_t size = 0;
    uint8_t *bytes = read_whole(in_folder(name), &size);
    CHECK(bytes && size > 64);
    if (!bytes || size <= 64)
        return;
    guarded g = guarded_memory(size);
    accepted = refused = 0;
    head = head && head < size ? head : size;
    truncate_everywhere(&g, bytes, size, head, format);
    change(&g, bytes, size, head, format);
    printf("%s: %u damaged sources refused, %u read\n", name, refused, accepted);
    munmap(g.end - g.room, g.room + (size_t)sysconf(_SC_PAGESIZE));
    free(bytes);
}

int main(void)
{
    files_begin();
    tiny_gguf(in_folder("tiny.gguf"));
    damage("tiny.gguf", 14300, GGUF);
    damage("tiny.gguf", 14300, GGUF_VOCAB);
    for (uint32_t version = 0; version < 3; version++) {
        tiny_llama2c(version, in_folder("tiny.bin"), in_folder("tokenizer.bin"));
        damage("tiny.bin", version ? 256 : 28, LLAMA2C);
    }
    damage("tokenizer.bin", 0, LLAMA2C_TOKENIZER);
    files_end();
    return check_end();
}
