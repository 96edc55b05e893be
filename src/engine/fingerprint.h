/* What makes a model itself: a digest of all that its numbers follow from. */
#ifndef CR_FINGERPRINT_H
#define CR_FINGERPRINT_H

#include "base/digest.h"
#include "model/model.h"

/* Of the tensors (names, shapes, types, bytes), of the metadata but for names, authors and
 * vocabulary, and of the rotary frequencies, which also follow from the context size. Reads every
 * weight. */
cr_digest cr_fingerprint(const cr_model *model);

#endif
