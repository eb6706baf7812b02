/* Text to token ids: the public functions. */
#include "base/error.h"
#include "text/encoder.h"

size_t mk_tokenize_scratch_size(const mk_model *model, size_t text_bytes)
{
    (void)model; /* the same for both kinds of tokenizer */
    return mk_encoder_scratch(text_bytes);
}

mk_status mk_tokenize(const mk_model *model, const char *text, size_t text_bytes, unsigned flags, int32_t *ids,
                      size_t capacity, size_t *count, void *scratch, size_t scratch_bytes, mk_error *err)
{
    mk_vocab vocab;
    *count = 0;
    if (flags & ~(unsigned)(MK_TOKENIZE_BOS | MK_TOKENIZE_SPECIAL))
        return mk_fail(err, MK_ERR_ARGUMENT, "unknown flags in %u for mk_tokenize", (uint32_t)flags);
    size_t needed = mk_encoder_scratch(text_bytes);
    if (needed == 0)
        return mk_fail(err, MK_ERR_ARGUMENT, "a text of %U bytes is too long for the tokenizer",
                       (uint64_t)text_bytes);
    if (!scratch || (uintptr_t)scratch % 8 || scratch_bytes < needed)
        return mk_fail(err, MK_ERR_MEMORY,
                       "tokenizing %U bytes needs %U bytes of scratch aligned to 8, there are %U",
                       (uint64_t)text_bytes, (uint64_t)needed, (uint64_t)scratch_bytes);
    mk_status status = mk_vocab_open(model, &vocab, err);
    if (status != MK_OK)
        return status;
    mk_encoder encoder = mk_encoder_begin(&vocab, ids, capacity, scratch);
    if ((flags & MK_TOKENIZE_BOS) && (vocab.head->flags & MKN_TOKENIZER_ADD_BOS))
        mk_encoder_add_special(&encoder, vocab.head->bos);
    mk_encoder_text(&encoder, (flags & MK_TOKENIZE_SPECIAL) != 0, (const uint8_t *)text, text_bytes);
    return mk_encoder_end(&encoder, count, err);
}
