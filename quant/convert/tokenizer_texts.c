/* Token texts as raw bytes, and the hash table of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "makarna.h"
#include "quant/convert/tokenizer_build.h"
#include "quant/read/fail.h"
#include "text/utf8.h"

#define SPACE_SYMBOL "\xE2\x96\x81" /* U+2581 */

/* ---- Byte alphabet -------------------------------------------------------------------------- */

/* GPT-2 writes a byte that is a printable character of Latin-1 as that character, and the others, in
 * order, as U+0100 and on. */
static bool prints_as_itself(uint32_t byte)
{
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

static int32_t alphabet_byte(uint32_t code)
{
    if (code < 0x100)
        return prints_as_itself(code) ? (int32_t)code : -1;
    uint32_t wanted = code - 0x100;
    for (uint32_t byte = 0; byte < 0x100; byte++)
        if (!prints_as_itself(byte) && wanted-- == 0)
            return (int32_t)byte;
    return -1;
}

int64_t build_decode_alphabet(source_string s, uint8_t *out)
{
    int64_t written = 0;
    for (size_t i = 0; i < s.length;) {
        uint32_t code;
        i += mk_utf8_decode((const uint8_t *)s.text + i, s.length - i, &code);
        int32_t byte = code == MK_UTF8_INVALID ? -1 : alphabet_byte(code);
        if (byte < 0)
            return -1;
        out[written++] = (uint8_t)byte;
    }
    return written;
}

/* ---- Table of texts ------------------------------------------------------------------------- */

source_string build_text(const tokenizer_build *b, uint32_t symbol)
{
    return (source_string){(const char *)b->texts + b->ends[symbol], b->ends[symbol + 1] - b->ends[symbol]};
}

uint32_t build_find(const tokenizer_build *b, const char *text, size_t size)
{
    for (uint32_t slot = mkn_text_hash(text, size);; slot++) {
        uint32_t symbol = b->slots[slot & (b->slot_count - 1)];
        if (symbol == MKN_NO_TOKEN)
            return MKN_NO_TOKEN;
        source_string candidate = build_text(b, symbol);
        if (candidate.length == size && memcmp(candidate.text, text, size) == 0)
            return symbol;
    }
}

static void put(tokenizer_build *b, uint32_t symbol)
{
    source_string text = build_text(b, symbol);
    uint32_t slot = mkn_text_hash(text.text, text.length), probes = 1;
    for (; b->slots[slot & (b->slot_count - 1)] != MKN_NO_TOKEN; slot++)
        probes++;
    b->slots[slot & (b->slot_count - 1)] = symbol;
    b->slots_used++;
    if (probes > b->slot_probes)
        b->slot_probes = probes;
}

/* Doubles the table and puts all of it in again, in the order of the symbols. */
static bool enlarge(tokenizer_build *b)
{
    uint32_t *old = b->slots, old_count = b->slot_count, symbols = 0;
    uint8_t *present = calloc(b->symbol_count + (size_t)1, 1);
    b->slots = NULL;
    b->slot_count = old_count ? 2 * old_count : 1024;
    if (!present || !build_grow(b, (void **)&b->slots, b->slot_count, sizeof *b->slots)) {
        b->slots = old;
        b->slot_count = old_count;
        free(present);
        return build_fail(b, "out of memory for a table of %u texts", b->symbol_count);
    }
    memset(b->slots, 0xff, b->slot_count * sizeof *b->slots);
    for (uint32_t i = 0; i < old_count; i++)
        if (old[i] != MKN_NO_TOKEN)
            present[old[i]] = 1;
    b->slots_used = b->slot_probes = 0;
    for (; symbols < b->symbol_count; symbols++)
        if (present[symbols])
            put(b, symbols);
    free(present);
    free(old);
    return true;
}

/* Makes the text of a symbol findable. */
static bool register_text(tokenizer_build *b, uint32_t symbol)
{
    char name[QUANT_NAME];
    source_string text = build_text(b, symbol);
    if (text.length == 0)
        return true;
    if (2 * (uint64_t)b->slots_used >= b->slot_count && !enlarge(b))
        return false;
    uint32_t other = build_find(b, text.text, text.length);
    if (other != MKN_NO_TOKEN)
        return build_fail(b, "tokens %u and %u have the same text \"%s\"", other, symbol,
                          quant_name(text, name));
    put(b, symbol);
    return true;
}

/* ---- Texts ---------------------------------------------------------------------------------- */

/* Room for one more symbol with a text of at most `size` bytes. */
static bool reserve(tokenizer_build *b, uint64_t size)
{
    if (b->symbol_count + 1 >= b->symbol_room) {
        uint32_t room = b->symbol_room + b->symbol_room / 2 + 1024;
        if (!build_grow(b, (void **)&b->ends, room, sizeof *b->ends))
            return false;
        b->symbol_room = room;
    }
    if (b->text_bytes + size > INT32_MAX)
        return build_fail(b, "the token texts take more than 2 GiB");
    if (b->text_bytes + size > b->text_room) {
        uint64_t room = b->text_room + b->text_room / 2 + size + 65536;
        if (!build_grow(b, (void **)&b->texts, room, 1))
            return false;
        b->text_room = room;
    }
    b->ends[0] = 0;
    return true;
}

/* The `size` bytes after the last text become the text of a new symbol. */
static void commit(tokenizer_build *b, uint32_t size)
{
    b->text_bytes += size;
    b->ends[++b->symbol_count] = (uint32_t)b->text_bytes;
    if (size > b->max_token_bytes)
        b->max_token_bytes = size;
}

bool build_add_character(tokenizer_build *b, const char *text, size_t size)
{
    if (!reserve(b, size))
        return false;
    memcpy(b->texts + b->text_bytes, text, size);
    commit(b, (uint32_t)size);
    return register_text(b, b->symbol_count - 1);
}

/* Copies with U+2581 replaced by a space; returns the bytes written. */
static uint32_t copy_with_spaces(source_string s, uint8_t *out)
{
    uint32_t written = 0;
    for (size_t i = 0; i < s.length;) {
        if (s.length - i >= 3 && memcmp(s.text + i, SPACE_SYMBOL, 3) == 0) {
            out[written++] = ' ';
            i += 3;
        } else {
            out[written++] = (uint8_t)s.text[i++];
        }
    }
    return written;
}

/* The byte of a token "<0xNN>", -1 if it is not of that form. */
static int32_t byte_of(source_string s)
{
    int32_t value = 0;
    if (s.length != 6 || memcmp(s.text, "<0x", 3) != 0 || s.text[5] != '>')
        return -1;
    for (int i = 3; i < 5; i++) {
        const char *digits = "0123456789ABCDEF", *at = s.text[i] ? strchr(digits, s.text[i]) : NULL;
        if (!at)
            return -1;
        value = 16 * value + (int32_t)(at - digits);
    }
    return value;
}

static bool valid_utf8(source_string s)
{
    for (size_t i = 0; i < s.length;) {
        uint32_t code;
        i += mk_utf8_decode((const uint8_t *)s.text + i, s.length - i, &code);
        if (code == MK_UTF8_INVALID)
            return false;
    }
    return true;
}

static bool add_byte_token(tokenizer_build *b, uint32_t id)
{
    char name[QUANT_NAME];
    source_string token = b->vocab->tokens[id];
    int32_t byte = byte_of(token);
    if (b->vocab->kind != SOURCE_VOCAB_SPM || byte < 0)
        return build_fail(b,
                          "token %u (\"%s\") is marked as a byte, expected a text of the form <0x0A>, and only "
                          "in a SentencePiece vocabulary",
                          id, quant_name(token, name));
    if (b->byte_tokens[byte] != MKN_NO_TOKEN)
        return build_fail(b, "tokens %u and %u both stand for the byte 0x%02X", b->byte_tokens[byte], id,
                          (unsigned)byte);
    b->byte_tokens[byte] = id;
    b->texts[b->text_bytes] = (uint8_t)byte;
    commit(b, 1);
    return true;
}

/* Whether the text of a token can come up in a text: by merging, or as a single character, which in
 * SentencePiece stays what it is even where it is marked unused. */
static bool is_found(const tokenizer_build *b, uint32_t id)
{
    uint32_t code;
    source_string text = build_text(b, id);
    switch (b->vocab->types[id]) {
    case SOURCE_TOKEN_NORMAL:
        return true;
    case SOURCE_TOKEN_USER:
        return b->vocab->kind == SOURCE_VOCAB_SPM;
    case SOURCE_TOKEN_UNUSED:
        return b->vocab->kind == SOURCE_VOCAB_SPM && text.length &&
               mk_utf8_decode((const uint8_t *)text.text, text.length, &code) == text.length;
    default:
        return false;
    }
}

static bool add_text_token(tokenizer_build *b, uint32_t id)
{
    char name[QUANT_NAME];
    source_string token = b->vocab->tokens[id];
    uint8_t *out = b->texts + b->text_bytes;
    bool normal = b->vocab->types[id] == SOURCE_TOKEN_NORMAL, control = b->kinds[id] == MKN_TOKEN_CONTROL;
    int64_t size;
    if (b->vocab->kind == SOURCE_VOCAB_BPE && normal) {
        size = build_decode_alphabet(token, out);
        if (size < 0)
            return build_fail(b,
                              "token %u (\"%s\") has a character outside the byte alphabet of byte-level BPE",
                              id, quant_name(token, name));
        if (size == 1)
            b->byte_tokens[out[0]] = id;
    } else if (b->vocab->kind == SOURCE_VOCAB_SPM && !control) {
        if (!valid_utf8(token))
            return build_fail(b, "the text of token %u (\"%s\") is not valid UTF-8", id,
                              quant_name(token, name));
        size = copy_with_spaces(token, out);
    } else {
        memcpy(out, token.text, token.length);
        size = (int64_t)token.length;
    }
    commit(b, (uint32_t)size);
    return !is_found(b, id) || register_text(b, id);
}

static bool add_token(tokenizer_build *b, uint32_t id)
{
    char name[QUANT_NAME];
    source_string token = b->vocab->tokens[id];
    if (token.length > MKN_MAX_TOKEN_BYTES)
        return build_fail(b, "token %u (\"%s\") has %zu bytes, at most %u are supported", id,
                          quant_name(token, name), token.length, MKN_MAX_TOKEN_BYTES);
    if (!reserve(b, token.length + 1))
        return false;
    switch (b->vocab->types[id]) {
    case SOURCE_TOKEN_BYTE:
        return add_byte_token(b, id);
    case SOURCE_TOKEN_CONTROL:
    case SOURCE_TOKEN_UNKNOWN:
        b->kinds[id] = MKN_TOKEN_CONTROL;
        return add_text_token(b, id);
    case SOURCE_TOKEN_USER:
        b->kinds[id] = MKN_TOKEN_USER;
        return add_text_token(b, id);
    case SOURCE_TOKEN_NORMAL:
    case SOURCE_TOKEN_UNUSED:
        return add_text_token(b, id);
    default:
        return build_fail(b, "token %u (\"%s\") has the unknown type %u", id, quant_name(token, name),
                          b->vocab->types[id]);
    }
}

/* A SentencePiece vocabulary has a token for every byte, or for none and then an unknown token. */
static bool check_bytes(tokenizer_build *b)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < 256; i++)
        found += b->byte_tokens[i] != MKN_NO_TOKEN;
    if (b->vocab->kind == SOURCE_VOCAB_BPE)
        return found || build_fail(b, "the vocabulary has no token of a single byte: it is not byte-level BPE");
    if (found != 0 && found != 256)
        return build_fail(b, "the vocabulary has %u byte tokens (<0x00> to <0xFF>), expected 256 or none",
                          found);
    if (found == 0 && b->vocab->unknown < 0)
        return build_fail(b, "the vocabulary has neither byte tokens nor an unknown token");
    return true;
}

bool build_texts(tokenizer_build *b)
{
    memset(b->byte_tokens, 0xff, sizeof b->byte_tokens);
    if (!build_grow(b, (void **)&b->kinds, b->vocab->count, 1) || !enlarge(b))
        return false;
    memset(b->kinds, MKN_TOKEN_NORMAL, b->vocab->count);
    for (uint32_t id = 0; id < b->vocab->count; id++)
        if (!add_token(b, id))
            return false;
    return check_bytes(b);
}
