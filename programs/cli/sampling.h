/* Sampling options of the command line, for the commands that generate. */
#ifndef CLI_SAMPLING_H
#define CLI_SAMPLING_H

#include "cera.h"
#include "cli/options.h"

/* The options with the arrays that they point to. */
typedef struct sampling {
    cera_generate_options options;
    const char **stops, **breakers;
    cera_logit_bias *bias;
    cera_sampler *samplers;
} sampling;

/* Reads them, over the library's defaults. Returns an exit code, after a report unless it is
 * EXIT_OK. Done with in any case. */
int sampling_read(const cli_args *args, sampling *out);
/* Whether the model has the tokens that are named: an exit code like that. */
int sampling_check(const cli_args *args, const cera_generate_options *options, int n_vocab);
/* A remark of this level with the settings that are in force, and nothing about those that are
 * off. */
void sampling_tell(const cera_generate_options *options, int level);
void sampling_done(sampling *chosen);

#endif
