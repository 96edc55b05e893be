/* Running a template that has been parsed. */
#ifndef CR_TEMPLATE_RENDER_H
#define CR_TEMPLATE_RENDER_H

#include "template/syntax.h"

/* Prints to t->out; t->context is filled. */
bool cr_render_run(cr_interp *t);

#endif
