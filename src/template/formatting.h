/* Formatting of numbers and texts, in Python's two ways. */
#ifndef CR_TEMPLATE_FORMATTING_H
#define CR_TEMPLATE_FORMATTING_H

#include "template/value.h"

/* As printf does with %e, %f or %g and a point; precision -1: 6. Fails over 300. */
enum { CR_REAL_ROOM = 640 };
bool cr_format_real(cr_interp *t, char letter, int precision, bool alternate, double value,
                    char out[CR_REAL_ROOM]);

/* str.format */
bool cr_format_braces(cr_interp *t, const cr_tstr *s, const cr_args *args, cr_tv *out);

#endif
