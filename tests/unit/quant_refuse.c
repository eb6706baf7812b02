/* What the readers and the plan do not know they refuse, and say by name what it is. */
#define _GNU_SOURCE
#include <math.h>

#include "base/bytes.h"
#include "unit/quant_files.h"

static uint8_t *bytes; /* of the tiny GGUF file, with a change */
static size_t size;

/* Expects that the changed file is refused with all of the given texts, and leaves nothing behind. */
static void refused(const char *first, const char *second)
{
    mk_error err = {""};
    unsigned files;
    write_whole(in_folder("changed.gguf"), bytes, size);
    files = files_count();
    mk_status status =
        quantize_files(&(quantize_case){"changed.gguf", NULL, "out.mkn", MKN_Q4, MKN_Q8, MKN_Q8, 2}, &err);
    CHECK_MSG(status != MK_OK, "accepted: expected \"%s\" \"%s\"", first, second);
    CHECK_MSG(strstr(err.text, first) && strstr(err.text, second), "\"%s\", expected \"%s\" and \"%s\"",
              err.text, first, second);
    CHECK_MSG(strstr(err.text, "changed.gguf: ") != NULL, "no file name: %s", err.text);
    CHECK_MSG(files_count() == files, "a file is left behind: %s", err.text);
    free(bytes);
    bytes = read_whole(in_folder("tiny.gguf"), &size);
}

static uint8_t *find(const char *text)
{
    uint8_t *p = memmem(bytes, size, text, strlen(text));
    CHECK_MSG(p != NULL, "no \"%s\" in the file", text);
    return p ? p : bytes + 64;
}

/* Another text of the same length in place of `from`. */
static void rename_to(const char *from, const char *to)
{
    memcpy(find(from), to, strlen(to));
}

/* Field of a tensor record, `at` bytes behind the name. */
static void set_field(const char *tensor, size_t at, const void *value, size_t width)
{
    memcpy(find(tensor) + strlen(tensor) + at, value, width);
}

/* Adds a key in front, and another that fills up to a multiple of 32 bytes, so that tensors stay aligned. */
static void add_key(const char *name, uint32_t type, const void *value, size_t value_size)
{
    size_t length = strlen(name), added = 8 + length + 4 + value_size, fill = 64 - (added + 8 + 4 + 1) % 32;
    uint8_t *grown = calloc(1, size + added + 8 + fill + 4 + 1), *p = grown + 24;
    memcpy(grown, bytes, 24);
    uint64_t keys = mk_load64(grown + 16) + 2, length64 = length, fill64 = fill;
    memcpy(grown + 16, &keys, 8);
    memcpy(p, &length64, 8);
    memcpy(p + 8, name, length);
    memcpy(p + 8 + length, &type, 4);
    memcpy(p + 8 + length + 4, value, value_size);
    p += added;
    memcpy(p, &fill64, 8);
    memset(p + 8, 'x', fill);
    p += 8 + fill + 4 + 1; /* type 0, value 0 */
    memcpy(p, bytes + 24, size - 24);
    size = (size_t)(p - grown) + size - 24;
    free(bytes);
    bytes = grown;
}

static void add_u32(const char *name, uint32_t value)
{
    add_key(name, TINY_TYPE_U32, &value, 4);
}

static void add_f32(const char *name, float value)
{
    add_key(name, TINY_TYPE_F32, &value, 4);
}

static void add_text(const char *name, const char *text)
{
    uint8_t value[64];
    uint64_t length = strlen(text);
    memcpy(value, &length, 8);
    memcpy(value + 8, text, length);
    add_key(name, TINY_TYPE_STRING, value, 8 + length);
}

static void containers(void)
{
    bytes[4] = 1;
    refused("GGUF version 1", "2 or 3");
    memcpy(bytes + 4, "\0\0\0\3", 4);
    refused("big-endian", "");
    memcpy(bytes, "GGML", 4);
    refused("not a GGUF file", "no llama2.c model");
    rename_to("tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id");
    refused("tokenizer.ggml.eos_token_id", "twice");
    rename_to("blk.1.ffn_up.weight", "blk.0.ffn_up.weight");
    refused("blk.0.ffn_up.weight", "twice");
    *(find("general.alignment") + 17 + 4) = 33;
    refused("general.alignment", "33");
    add_key("general.nested", TINY_TYPE_ARRAY, "\x09\0\0\0\1\0\0\0\0\0\0\0", 12);
    refused("general.nested", "array of arrays");
    add_key("general.strange", 13, "", 0);
    refused("general.strange", "type 13");
    add_key("general.truth", TINY_TYPE_BOOL, "\2", 1);
    refused("general.truth", "2");
}

static void architecture(void)
{
    uint8_t *p = find("general.architecture");
    memcpy(p + 20 + 4 + 8, "mamba", 5);
    refused("mamba", "llama");
    rename_to("llama.attention.key_length", "llama.attention.kex_length");
    refused("llama.attention.kex_length", "not known");
    rename_to("llama.block_count", "xlama.block_count");
    refused("llama.block_count", "missing");
    add_u32("llama.expert_count", 8);
    refused("llama.expert_count", "8");
    add_u32("split.count", 3);
    refused("split.count", "3 parts");
    add_u32("llama.attention.sliding_window", 4096);
    refused("llama.attention.sliding_window", "4096");
    add_text("llama.rope.scaling.type", "yarn");
    refused("llama.rope.scaling.type", "yarn");
    add_f32("llama.rope.scaling.factor", 4);
    refused("RoPE scaling", "4");
    add_f32("llama.rope.scale_linear", 2);
    refused("RoPE scaling", "2");
    add_key("llama.attention.causal", TINY_TYPE_BOOL, "", 1);
    refused("causal", "");
    add_text("llama.tensor_data_layout", "other");
    refused("layout other", "");
    rename_to("llama.attention.layer_norm_rms_epsilon", "llama.attention.layer_norm_xxx_epsilon");
    refused("layer_norm_xxx_epsilon", "not known");
}

static void set_u32(const char *key, uint32_t value)
{
    memcpy(find(key) + strlen(key) + 4, &value, 4);
}

static void sizes(void)
{
    set_u32("llama.vocab_size", 514);
    refused("llama.vocab_size is 514", "515 tokens");
    set_u32("llama.block_count", 2);
    refused("blk.2.", "2 layers");
    set_u32("llama.block_count", 4);
    refused("blk.3.attn_norm.weight", "missing");
    set_u32("llama.block_count", 0xffffffff);
    refused("number of layers", "4294967295");
    set_u32("llama.attention.head_count_kv", 4);
    refused("6 heads", "4 KV heads");
    set_u32("llama.attention.head_count_kv", 0);
    refused("KV heads is 0", "");
    set_u32("llama.attention.value_length", 13);
    refused("keys of 12", "values of 13");
    set_u32("llama.rope.dimension_count", 7);
    refused("7 values", "even");
    set_u32("llama.rope.dimension_count", 14);
    refused("rotated values is 14", "12");
    set_u32("llama.context_length", 0);
    refused("context length is 0", "");
    set_u32("llama.attention.layer_norm_rms_epsilon", 0x7f800000);
    refused("layer_norm_rms_epsilon", "finite");
    set_u32("llama.rope.freq_base", 0);
    refused("RoPE base is 0", "");
    set_u32("llama.embedding_length", 96);
    refused("token_embd.weight", "515 of 96");
}

static void tensors(void)
{
    const uint32_t q4_k = 12, unknown = 99;
    const uint64_t zero = 0, far = 1ull << 40, odd = 8, huge = 1ull << 62;
    set_field("blk.0.attn_q.weight", 4 + 16, &q4_k, 4);
    refused("blk.0.attn_q.weight", "Q4_K (12)");
    set_field("blk.0.attn_q.weight", 4 + 16, &q4_k, 4);
    refused("F32, F16, BF16", "take the F16 or Q8_0 file");
    set_field("blk.0.attn_q.weight", 4 + 16, &unknown, 4);
    refused("blk.0.attn_q.weight", "99");
    rename_to("blk.1.ffn_up.weight", "blk.1.ffn_ux.weight");
    refused("blk.1.ffn_ux.weight", "not known");
    rename_to("blk.1.ffn_up.weight", "blk.01ffn_up.weight");
    refused("blk.01ffn_up.weight", "not known");
    rename_to("blk.2.attn_q_norm.weight", "blk.2.attn_x_norm.weight");
    refused("blk.2.attn_x_norm.weight", "not known");
    rename_to("output_norm.weight", "rope_freqs.weight\n");
    refused("rope_freqs.weight?", "not known");
    set_field("blk.2.attn_v.weight", 4 + 16 + 4, &zero, 8);
    refused("overlap", "blk.2.attn_v.weight");
    set_field("blk.2.attn_v.weight", 4 + 16 + 4, &far, 8);
    refused("blk.2.attn_v.weight", "beyond the file");
    set_field("blk.2.attn_v.weight", 4 + 16 + 4, &odd, 8);
    refused("blk.2.attn_v.weight", "alignment");
    set_field("blk.0.attn_k.weight", 4, &huge, 8);
    refused("blk.0.attn_k.weight", "beyond the file");
    set_field("blk.0.attn_k.weight", 4 + 8, &zero, 8);
    refused("blk.0.attn_k.weight", "dimension of 0");
    set_field("blk.0.attn_q.weight", 4, &odd, 8);
    refused("blk.0.attn_q.weight", "32 of a Q8_0 block");
    set_field("blk.0.ffn_down.weight", 4, &odd, 8);
    refused("blk.0.ffn_down.weight", "64 rows of 8");
    size -= 1;
    refused("output.weight", "beyond the file");
}

static void vocabulary(void)
{
    uint8_t *p = find("tokenizer.ggml.model");
    memcpy(p + 20 + 4 + 8, "bert", 4);
    refused("bert", "gpt2");
    p = find("tokenizer.ggml.token_type");
    p[25 + 4 + 4 + 8] = 7;
    refused("token 0", "type 7");
    set_u32("tokenizer.ggml.eos_token_id", 515);
    refused("tokenizer.ggml.eos_token_id is 515", "515 tokens");
    memcpy(find("tokenizer.ggml.token_type") + 25 + 4, "\x04", 1); /* as u32, which is as good */
    set_u32("tokenizer.ggml.eos_token_id", 515);
    refused("tokenizer.ggml.eos_token_id is 515", "515 tokens");
    memcpy(find("tokenizer.ggml.token_type") + 25 + 4, "\x06", 1);
    refused("items of type f32", "expected i32");
    rename_to("tokenizer.ggml.merges", "tokenizer.ggml.mergex");
    refused("tokenizer.ggml.merges", "missing");
    add_key("tokenizer.ggml.add_eos_token", TINY_TYPE_U32, "\1\0\0\0", 4);
    refused("tokenizer.ggml.add_eos_token", "bool");
    add_key("tokenizer.ggml.remove_extra_whitespaces", TINY_TYPE_BOOL, "\1", 1);
    refused("remove_extra_whitespaces", "");
}

/* Weights that are no numbers, in every kind of tensor. */
static void weights(void)
{
    static const char *const names[] = {"blk.1.ffn_norm.weight", "blk.1.attn_k.bias",
                                        "blk.1.ffn_down.weight", "blk.1.attn_output.weight",
                                        "blk.1.ffn_gate.weight", "output.weight"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        source s;
        mk_error err;
        source_request request = {.path = in_folder("tiny.gguf")};
        CHECK(source_open(&s, &request, &err) == MK_OK);
        for (uint32_t t = 0; t < s.model.tensor_count; t++) {
            const source_tensor *tensor = &s.model.tensors[t];
            size_t at = (size_t)(tensor->data - s.file.data);
            if (tensor->name.length != strlen(names[i]) ||
                memcmp(tensor->name.text, names[i], tensor->name.length) != 0)
                continue;
            memcpy(bytes + at, "\0\x7e", 2); /* NaN as F16 */
            if (tensor->type == SOURCE_BF16)
                memcpy(bytes + at, "\xc0\x7f", 2);
            if (tensor->type == SOURCE_F32)
                memcpy(bytes + at, "\0\0\xc0\x7f", 4);
        }
        source_close(&s);
        refused(names[i], "nan");
    }
}

static void llama2c(void)
{
    size_t bin_size = 0;
    mk_error err = {""};
    quantize_case c = {"changed.bin", "t.bin", "out.mkn", MKN_Q8, MKN_Q8, MKN_Q8, 1};
    tiny_llama2c(2, in_folder("t2.bin"), in_folder("t.bin"));
    uint8_t *bin = read_whole(in_folder("t2.bin"), &bin_size);
    bin[4] = 3;
    write_whole(in_folder("changed.bin"), bin, bin_size);
    CHECK(quantize_files(&c, &err) != MK_OK && strstr(err.text, "version 3"));
    bin[4] = 2;
    bin[bin_size - 1] |= 0x80; /* the last scale becomes negative */
    write_whole(in_folder("changed.bin"), bin, bin_size);
    CHECK(quantize_files(&c, &err) != MK_OK && strstr(err.text, "scale 1023 of tensor output.weight"));
    bin[bin_size - 1] &= 0x7f;
    write_whole(in_folder("changed.bin"), bin, bin_size + 1);
    CHECK(quantize_files(&c, &err) != MK_OK && strstr(err.text, "ends before the file does"));
    write_whole(in_folder("changed.bin"), bin, bin_size - 1);
    CHECK(quantize_files(&c, &err) != MK_OK && strstr(err.text, "more bytes than the file has"));
    write_whole(in_folder("changed.bin"), bin, bin_size);
    c.tokenizer = NULL;
    CHECK(quantize_files(&c, &err) != MK_OK && strstr(err.text, "--tokenizer FILE"));
    size_t tokenizer_size = 0;
    uint8_t *tokenizer = read_whole(in_folder("t.bin"), &tokenizer_size);
    tokenizer[12] ^= 1; /* of "<unk>" */
    write_whole(in_folder("other.bin"), tokenizer, tokenizer_size);
    c.tokenizer = "other.bin";
    CHECK(quantize_files(&c, &err) != MK_OK && strstr(err.text, "expected \"<unk>\""));
    free(tokenizer);
    c.tokenizer = "t2.bin";
    CHECK(quantize_files(&c, &err) != MK_OK && strstr(err.text, "t2.bin"));
    c.tokenizer = "t.bin";
    CHECK_MSG(quantize_files(&c, &err) == MK_OK, "%s", err.text);
    free(bin);
}

int main(void)
{
    files_begin();
    tiny_gguf(in_folder("tiny.gguf"));
    bytes = read_whole(in_folder("tiny.gguf"), &size);
    add_key("general.extra", TINY_TYPE_U32, "\1\0\0\0", 4); /* adding keys does no harm by itself */
    write_whole(in_folder("changed.gguf"), bytes, size);
    mk_error err = {""};
    CHECK_MSG(quantize_files(&(quantize_case){"changed.gguf", NULL, "out.mkn", MKN_Q4, MKN_Q8, MKN_Q8, 2},
                             &err) == MK_OK,
              "%s", err.text);
    unlink(in_folder("out.mkn"));
    free(bytes);
    bytes = read_whole(in_folder("tiny.gguf"), &size);
    containers();
    architecture();
    sizes();
    tensors();
    vocabulary();
    weights();
    llama2c();
    free(bytes);
    files_end();
    return check_end();
}
