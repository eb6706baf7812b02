/* image_writer.h - the .mkn file around its tensors: sections, checksums, header. */
#ifndef MK_QUANT_IMAGE_WRITER_H
#define MK_QUANT_IMAGE_WRITER_H

#include "image/mkn.h"
#include "quant/write/output_file.h"

/* Content of a section; the data section has only a size here. */
typedef struct section_content {
    const void *data;
    uint64_t size;
} section_content;

typedef struct image_writer {
    output_file *file;
    mkn_header header; /* the caller sets hyper-parameters, flags and tensor_count before image_begin */
} image_writer;

/* Places all sections, reserves the file and writes those that have content. */
mk_status image_begin(image_writer *w, output_file *file, const section_content sections[MKN_SECTIONS],
                      mk_error *err);

/* Writes at an offset into the data section. May be called from several threads. */
mk_status image_write_data(const image_writer *w, uint64_t offset, const void *data, size_t size,
                           mk_error *err);

/* Computes the checksum of the data section from the file, and writes the header. */
mk_status image_finish(image_writer *w, mk_error *err);

#endif
