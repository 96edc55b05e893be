/* The functions behind the table of filters (filters_list.c). */
#ifndef CR_TEMPLATE_FILTERS_LIST_H
#define CR_TEMPLATE_FILTERS_LIST_H

#include "template/value.h"

/* Texts and numbers, filters_text.c */
cr_builtin cr_filter_abs, cr_filter_capitalize, cr_filter_center, cr_filter_escape, cr_filter_float,
    cr_filter_forceescape, cr_filter_format, cr_filter_indent, cr_filter_int, cr_filter_lower,
    cr_filter_replace, cr_filter_round, cr_filter_safe, cr_filter_string, cr_filter_title,
    cr_filter_tojson, cr_filter_trim, cr_filter_truncate, cr_filter_upper, cr_filter_urlencode,
    cr_filter_wordcount;

#endif
