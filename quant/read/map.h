/* map.h - a source file mapped for reading, and giving its pages back when they were used. */
#ifndef MK_QUANT_MAP_H
#define MK_QUANT_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "makarna.h"

typedef struct source_map {
    const uint8_t *data; /* NULL: not mapped */
    uint64_t size;
    uint64_t device, inode; /* to recognise the file by another name */
} source_map;

/* Maps a regular, non-empty file. */
mk_status source_map_open(source_map *map, const char *path, mk_error *err);

void source_map_close(source_map *map);

/* Takes whole pages inside [begin, begin + bytes) out of the resident set. They come back from the file
 * if they are read again, so this may be called while others still read nearby. */
void source_map_release(const source_map *map, const uint8_t *begin, uint64_t bytes);

/* XXH64 of the whole file, releasing pages behind itself. */
uint64_t source_map_checksum(const source_map *map);

#endif
