/* image.h - an open model image: mapping, checks, and finding things in it. */
#ifndef MK_IMAGE_H
#define MK_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/mkn.h"
#include "makarna.h"

/* What a mk_model holds. All pointers lead into the image, and what they lead to was checked to lie
 * inside it. Sections other than the header, directory and layers are not checksummed on opening, so
 * code that follows offsets inside them checks each before use. */
typedef struct mk_image {
    const uint8_t *base;
    uint64_t size;
    bool mapped; /* by us, to be unmapped */
    const mkn_header *header;
    const mkn_tensor *tensors; /* [header->tensor_count] */
    const mkn_layer *layers;   /* [header->layers] */
} mk_image;

_Static_assert(sizeof(mk_image) <= sizeof(mk_model), "a mk_model holds a mk_image");

static inline const mk_image *mk_image_of(const mk_model *model)
{
    return (const mk_image *)(const void *)model->storage;
}

/* Bytes of a section and, in *size, how many; NULL if it is absent. */
const uint8_t *mk_image_section(const mk_image *image, enum mkn_section_kind kind, uint64_t *size);

/* The tensor of a role (and layer), or NULL. */
const mkn_tensor *mk_image_tensor(const mk_image *image, enum mkn_role role, uint32_t layer);

/* A text of the strings section by the offset that mkn_strings gives; "" if absent or not terminated
 * inside the section. */
const char *mk_image_string(const mk_image *image, uint32_t offset);

/* The strings record itself, or NULL. */
const mkn_strings *mk_image_strings(const mk_image *image);

/* Bytes that codes and scales of a tensor must have; false on overflow or an unknown type. */
bool mkn_tensor_sizes(uint32_t type, uint32_t rows, uint32_t cols, uint64_t *size, uint64_t *scales_size);

#endif
