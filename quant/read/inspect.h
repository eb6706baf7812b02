/* inspect.h - prints what a source holds. */
#ifndef MK_QUANT_INSPECT_H
#define MK_QUANT_INSPECT_H

#include "quant/read/reader.h"

void inspect_source(const source *s);

#endif
