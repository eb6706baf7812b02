/* Token ids to text, as a stream of valid UTF-8. Invalid input becomes U+FFFD, one for each maximal part
 * of a sequence that could not go on (Unicode standard, section 3.9, the practice for replacement). */
#include <string.h>

#include "makarna.h"
#include "text/utf8.h"
#include "text/vocab.h"

static size_t put_replacement(char *out)
{
    memcpy(out, MK_UTF8_REPLACEMENT, 3);
    return 3;
}

/* Takes one byte: writes at most 6 bytes (U+FFFD for what was pending, and for this byte). */
static size_t put_byte(mk_detokenizer *state, uint8_t byte, char *out)
{
    uint8_t low, high;
    size_t written = 0;
    if (state->pending_count) {
        uint32_t length = mk_utf8_length(state->pending[0], &low, &high);
        if (state->pending_count > 1) {
            low = 0x80;
            high = 0xBF;
        }
        if (byte >= low && byte <= high) {
            state->pending[state->pending_count++] = byte;
            if (state->pending_count < length)
                return 0;
            memcpy(out, state->pending, length);
            state->pending_count = 0;
            return length;
        }
        written = put_replacement(out);
        state->pending_count = 0;
    }
    uint32_t length = mk_utf8_length(byte, &low, &high);
    if (length == 0)
        return written + put_replacement(out + written);
    if (length == 1) {
        out[written] = (char)byte;
        return written + 1;
    }
    state->pending[0] = byte;
    state->pending_count = 1;
    return written;
}

size_t mk_detokenize_capacity(const mk_model *model)
{
    mk_vocab vocab;
    if (mk_vocab_open(model, &vocab, NULL) != MK_OK)
        return 4;
    /* Each byte may become a U+FFFD, and so may what is pending. */
    return 3 * (size_t)vocab.head->max_token_bytes + 4;
}

size_t mk_detokenize(const mk_model *model, mk_detokenizer *state, int32_t token, char *out)
{
    mk_vocab vocab;
    uint32_t size;
    if (mk_vocab_open(model, &vocab, NULL) != MK_OK || token < 0 ||
        (uint32_t)token >= vocab.head->token_count || vocab.token_kinds[token] == MKN_TOKEN_CONTROL)
        return 0;
    if (state->pending_count >= sizeof state->pending)
        state->pending_count = 0; /* never by our hand */
    const uint8_t *text = mk_vocab_text(&vocab, (uint32_t)token, &size);
    size_t written = 0;
    for (uint32_t i = 0; i < size; i++) {
        bool drop = !state->started && text[i] == ' ' && (vocab.head->flags & MKN_TOKENIZER_SPACE_PREFIX);
        state->started = true;
        if (!drop)
            written += put_byte(state, text[i], out + written);
    }
    return written;
}

size_t mk_detokenize_end(mk_detokenizer *state, char *out)
{
    bool pending = state->pending_count != 0;
    state->pending_count = 0;
    return pending ? put_replacement(out) : 0;
}

bool mk_is_end(const mk_model *model, int32_t token)
{
    mk_vocab vocab;
    if (token < 0 || mk_vocab_open(model, &vocab, NULL) != MK_OK)
        return false;
    for (uint32_t i = 0; i < vocab.head->end_tokens.count; i++)
        if (vocab.end_tokens[i] == (uint32_t)token)
            return true;
    return false;
}
