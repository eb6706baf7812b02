/* chat_format.h - the chat format of an image: what stands around each message of a conversation. It
 * is recognised by the whole text of the source's chat template, never by a model's name. */
#ifndef MK_QUANT_CHAT_FORMAT_H
#define MK_QUANT_CHAT_FORMAT_H

#include <stdbool.h>
#include <stddef.h>

#include "quant/read/source.h"

/* The texts of mkn_strings, constants of the program. A message renders as prefix + text + suffix of
 * its role, and the next answer begins after assistant_prefix. */
typedef struct chat_format {
    const char *name; /* "chatml" */
    const char *system_prefix, *system_suffix;
    const char *user_prefix, *user_suffix;
    const char *assistant_prefix, *assistant_suffix;
    const char *default_system; /* NULL: without a system message there is none */
} chat_format;

typedef enum chat_result {
    CHAT_FOUND,  /* *format is filled; message is empty */
    CHAT_NONE,   /* the image gets no chat format (mkn_strings.chat_format = 0, and so the other chat texts);
                    message, if not empty, is a notice for the user that says why and what to do */
    CHAT_FAILED, /* the request cannot be served; message is the error */
} chat_result;

/* `requested` is the argument of --chat-format: "chatml", "none", or NULL to go by the template in the
 * source. */
chat_result convert_chat_format(const source_vocab *vocab, const char *requested, chat_format *format,
                                char *message, size_t message_size);

#endif
