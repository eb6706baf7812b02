#include "quant/write/image_writer.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "quant/read/fail.h"

mk_status image_begin(image_writer *w, output_file *file, const section_content sections[MKN_SECTIONS],
                      mk_error *err)
{
    mkn_header *h = &w->header;
    w->file = file;
    memcpy(h->magic, MKN_MAGIC, sizeof h->magic);
    h->version = MKN_VERSION;
    h->header_size = sizeof *h;
    uint64_t end = sizeof *h;
    for (uint32_t i = 0; i < MKN_SECTIONS; i++) {
        if (sections[i].size == 0)
            continue;
        h->sections[i].offset = mk_align_up(end, MKN_ALIGN);
        h->sections[i].size = sections[i].size;
        end = h->sections[i].offset + sections[i].size;
    }
    h->file_size = mk_align_up(end, MKN_ALIGN);
    mk_status status = output_file_reserve(file, h->file_size, err);
    for (uint32_t i = 0; !status && i < MKN_SECTIONS; i++) {
        if (!sections[i].data)
            continue;
        h->sections[i].checksum = mk_hash(sections[i].data, (size_t)sections[i].size, 0);
        status =
            output_file_write(file, h->sections[i].offset, sections[i].data, (size_t)sections[i].size, err);
    }
    return status;
}

mk_status image_write_data(const image_writer *w, uint64_t offset, const void *data, size_t size, mk_error *err)
{
    return output_file_write(w->file, w->header.sections[MKN_DATA].offset + offset, data, size, err);
}

static mk_status hash_data(const image_writer *w, uint64_t *checksum, mk_error *err)
{
    const size_t window = 1u << 20;
    const mkn_section *data = &w->header.sections[MKN_DATA];
    uint8_t *buffer = malloc(window);
    if (!buffer)
        return quant_fail(err, MK_ERR_MEMORY, "%s: out of memory", w->file->name);
    mk_hash_state state;
    mk_hash_begin(&state, 0);
    mk_status status = MK_OK;
    for (uint64_t at = 0; !status && at < data->size; at += window) {
        size_t bytes = data->size - at < window ? (size_t)(data->size - at) : window;
        status = output_file_read(w->file, data->offset + at, buffer, bytes, err);
        if (!status)
            mk_hash_update(&state, buffer, bytes);
    }
    free(buffer);
    *checksum = mk_hash_end(&state);
    return status;
}

mk_status image_finish(image_writer *w, mk_error *err)
{
    mkn_header *h = &w->header;
    mk_status status = MK_OK;
    if (h->sections[MKN_DATA].size)
        status = hash_data(w, &h->sections[MKN_DATA].checksum, err);
    if (status)
        return status;
    h->checksum = 0;
    h->checksum = mk_hash(h, sizeof *h, 0);
    return output_file_write(w->file, 0, h, sizeof *h, err);
}
