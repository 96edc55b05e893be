#compdef cera
# zsh completion for cera, made by: cera completion zsh
_cera() {
    local -a commands
    commands=(
        'run:generate text from a prompt'
        'chat:talk with a model'
        'inspect:show what is in a model file'
        'tokenize:turn text into token ids'
        'template:turn a conversation into a prompt'
        'logits:show the scores of the next token'
        'embed:turn text into a vector'
        'perplexity:measure how well a model predicts a text'
        'grammar:look at a grammar or a JSON Schema'
        'cpu:show the processor and the threads that will be used'
        'bench:measure the speed of a model'
        'quantize:make a model file smaller'
        'convert:make a model file of a downloaded folder'
        'completion:print a completion script for a shell'
        'help:explain cera or one of its commands'
        'version:print the version'
    )
    if (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    local command=$words[2]
    shift words
    (( CURRENT-- ))
    case $command in
        run)
            _arguments \
                '-m[model file (GGUF), a folder with one, or builtin\:tiny]:PATH:_files' \
                '--model[model file (GGUF), a folder with one, or builtin\:tiny]:PATH:_files' \
                '--no-mmap[read the file into memory instead of mapping it]' \
                '--prefault[bring all weights into memory before the first token, not with it]' \
                '--tuning[what cera bench --tune measured on this machine]:FILE:_files' \
                '--pre[pre-tokenizer to use instead of the one that the file names]:NAME:' \
                '*--lora[LoRA adapter\: a GGUF file, or a folder of PEFT'\''s]:PATH:_files' \
                '*--lora-scaled[the same with a factor]:PATH\:SCALE:' \
                '*--control-vector[control vector (GGUF), added behind each layer that it has a direction for]:FILE:_files' \
                '*--control-vector-scaled[the same with a factor]:FILE\:SCALE:' \
                '--control-vector-layer-range[add control vectors behind these layers only, counted from 0]:FIRST-LAST:' \
                '-p[prompt, of chat the first message; - reads standard input, as does leaving it out in a pipe]:TEXT:' \
                '--prompt[prompt, of chat the first message; - reads standard input, as does leaving it out in a pipe]:TEXT:' \
                '-f[read the text from a file, without its last newline]:FILE:_files' \
                '--prompt-file[read the text from a file, without its last newline]:FILE:_files' \
                '--chat-template[use this template\: chatml, gemma, granite, llama2, llama3, mistral, phi3, zephyr, or Jinja]:NAME:' \
                '--chat-template-file[use the Jinja template in a file]:FILE:_files' \
                '--tools[list of tools, or @FILE]:JSON:' \
                '--tool-format[how the model marks tool calls (default\: as its template shows)]:seed|functionary-3.2|functionary|minicpm|xml|lfm2|glm|minimax|dsml-v4|dsml|apriel|hy3|solar|apertus|gigachat|kimi-k3|gemma4|hermes|mistral|phi4|granite|nemotron|cohere|command-r|deepseek-r1|deepseek|kimi|harmony|llama3|none:(seed functionary-3.2 functionary minicpm xml lfm2 glm minimax dsml-v4 dsml apriel hy3 solar apertus gigachat kimi-k3 gemma4 hermes mistral phi4 granite nemotron cohere command-r deepseek-r1 deepseek kimi harmony llama3 none)' \
                '--tool-choice[auto, none, required, or the name of the tool that must be called (default auto)]:CHOICE:' \
                '--constrain-tools[tool calls can only be what the tools'\'' schemas allow]' \
                '--template-vars[object with more variables for the template, or @FILE]:JSON:' \
                '--system[begin with this system message; run then uses the chat template]:TEXT:' \
                '--reasoning[show the model'\''s reasoning on standard error; auto\: on a terminal (default auto)]:auto|show|hide:(auto show hide)' \
                '--stdin[put standard input after the text, with an empty line between]' \
                '--token-ids[use these token ids (1,2,3), and nothing else, as the prompt]:IDS:' \
                '--no-bos[do not add the start token]' \
                '--no-special[treat text that spells a control token as plain text]' \
                '-n[at most this many tokens; -1\: until the model or the context ends (default 256, in chat 512)]:N:' \
                '--max-tokens[at most this many tokens; -1\: until the model or the context ends (default 256, in chat 512)]:N:' \
                '--n-keep[when the context is full, drop the older half of what follows the first N tokens, and go on (default\: end there)]:N:' \
                '--temperature[flatness of the distribution; 0 or less\: always the best token (default 0.7)]:T:' \
                '--top-k[keep the K best tokens; 0\: all (default 40)]:K:' \
                '--top-p[keep the best tokens whose probabilities add up to P (default 0.9)]:P:' \
                '--min-p[drop tokens less probable than P times the best (default 0.05)]:P:' \
                '--typical-p[keep the tokens of the most typical surprise that add up to P; 1\: all (default 1)]:P:' \
                '--top-n-sigma[keep logits within N standard deviations of the best; 0\: all (default 0)]:N:' \
                '--xtc-probability[chance of dropping the top choices but the last of them (default 0)]:P:' \
                '--xtc-threshold[probability that makes a token one of the top choices (default 0.1)]:P:' \
                '--temperature-range[vary the temperature by so much with the entropy; 0\: do not (default 0)]:R:' \
                '--temperature-exponent[how it follows the entropy (default 1)]:E:' \
                '--mirostat-tau[hold the surprise of the tokens here (Mirostat 2) instead of filtering; 0\: off (default 0)]:BITS:' \
                '--mirostat-eta[how fast Mirostat learns (default 0.1)]:E:' \
                '--repetition-penalty[weaken tokens that were generated already; 1\: off (default 1.1)]:R:' \
                '--frequency-penalty[take F off a token'\''s logit for each time that it was generated (default 0)]:F:' \
                '--presence-penalty[take F off the logit of each token that was generated (default 0)]:F:' \
                '--penalty-window[penalties look at the last N tokens, prompt included; 0\: at generated ones; -1\: at all (default 0)]:N:' \
                '--dry-multiplier[weaken tokens that would repeat a sequence (DRY); 0\: off (default 0)]:M:' \
                '--dry-base[by M B^(length - allowed) (default 1.75)]:B:' \
                '--dry-allowed-length[shorter sequences may repeat (default 2)]:N:' \
                '--dry-window[look at the last N tokens; -1\: at all (default -1)]:N:' \
                '*--dry-breaker[text that ends a sequence, instead of the usual\: line feed, colon, double quote, asterisk]:TEXT:' \
                '--samplers[stages and their order; others are off (default penalties;dry;temperature;top_n_sigma;top_k;typ_p;top_p;min_p;xtc)]:LIST:' \
                '--seed[start of the random numbers\: the same seed gives the same text (default\: random)]:N:' \
                '*--stop[end before this text; up to 16, taken literally (no \\n escapes)]:TEXT:' \
                '--ignore-eos[never choose the model'\''s end tokens]' \
                '*--logit-bias[add B to the logit of token ID; -inf bans it]:ID=B:' \
                '--logprobs[with --format json\: log-probability of each token and of N alternatives]:N:' \
                '--lookup[guess tokens from what followed the same ones before\: the same text, sooner where it repeats]' \
                '-d[guess tokens with this smaller model, which has the same vocabulary and no adapters\: the same text, sooner]:PATH:_files' \
                '--draft-model[guess tokens with this smaller model, which has the same vocabulary and no adapters\: the same text, sooner]:PATH:_files' \
                '--draft-max[with either of them\: at most N guesses at a time (default 8)]:N:' \
                '--grammar[hold the text to this grammar (GBNF)]:GBNF|@FILE:' \
                '--grammar-file[the same, from a file]:FILE:_files' \
                '-j[hold the text to JSON that this schema accepts]:JSON|@FILE:' \
                '--json-schema[hold the text to JSON that this schema accepts]:JSON|@FILE:' \
                '--json-schema-file[the same, from a file]:FILE:_files' \
                '--schema-lenient[leave out, with a warning, what cannot be enforced]' \
                '--schema-any-order[properties in any order (default\: the order of the schema)]' \
                '-t[threads; 0\: as many as suit this machine (default 0)]:N:' \
                '--threads[threads; 0\: as many as suit this machine (default 0)]:N:' \
                '-c[tokens that prompt and answer may have; 0\: 4096, or the model'\''s own if less; of bench as many as its tests need (default 0)]:N:' \
                '--context-size[tokens that prompt and answer may have; 0\: 4096, or the model'\''s own if less; of bench as many as its tests need (default 0)]:N:' \
                '--ubatch-size[prompt tokens computed at a time; 0\: 4096 (default 512)]:N:' \
                '--kv-type[type of cached keys and values (default f16)]:f16|f32|q8_0:(f16 f32 q8_0)' \
                '--cache-dir[keep what was computed in this folder (the texts, too) and start from what is there]:DIR:' \
                '--cache-disk-gb[bytes that the folder may have, least recently used go first (default 10)]:GB:' \
                '--no-cache[compute everything, whatever --cache-dir says]' \
                '--format[form of the result, and of errors (default text)]:text|json|jsonl:(text json jsonl)' \
                '--unbuffered[write each token at once, to a pipe too]' \
                '-h[show this help]' \
                '--help[show this help]' \
                '-V[print the version]' \
                '--version[print the version]' \
                '*-v[tell more on standard error\: model, sampling, timing; twice\: details]' \
                '*--verbose[tell more on standard error\: model, sampling, timing; twice\: details]' \
                '-q[errors only on standard error]' \
                '--quiet[errors only on standard error]' \
                '--color[colour on standard error (default auto)]:auto|always|never:(auto always never)' \
                '--progress[progress on standard error; auto\: a bar on a terminal (default auto)]:auto|plain|json|none:(auto plain json none)' \
                '--log-file[also write all remarks, with details, to a file]:FILE:_files' \
                '*:model:_files'
            ;;
        chat)
            _arguments \
                '-m[model file (GGUF), a folder with one, or builtin\:tiny]:PATH:_files' \
                '--model[model file (GGUF), a folder with one, or builtin\:tiny]:PATH:_files' \
                '--no-mmap[read the file into memory instead of mapping it]' \
                '--prefault[bring all weights into memory before the first token, not with it]' \
                '--tuning[what cera bench --tune measured on this machine]:FILE:_files' \
                '--pre[pre-tokenizer to use instead of the one that the file names]:NAME:' \
                '*--lora[LoRA adapter\: a GGUF file, or a folder of PEFT'\''s]:PATH:_files' \
                '*--lora-scaled[the same with a factor]:PATH\:SCALE:' \
                '*--control-vector[control vector (GGUF), added behind each layer that it has a direction for]:FILE:_files' \
                '*--control-vector-scaled[the same with a factor]:FILE\:SCALE:' \
                '--control-vector-layer-range[add control vectors behind these layers only, counted from 0]:FIRST-LAST:' \
                '-p[prompt, of chat the first message; - reads standard input, as does leaving it out in a pipe]:TEXT:' \
                '--prompt[prompt, of chat the first message; - reads standard input, as does leaving it out in a pipe]:TEXT:' \
                '--chat-template[use this template\: chatml, gemma, granite, llama2, llama3, mistral, phi3, zephyr, or Jinja]:NAME:' \
                '--chat-template-file[use the Jinja template in a file]:FILE:_files' \
                '--tools[list of tools, or @FILE]:JSON:' \
                '--tool-format[how the model marks tool calls (default\: as its template shows)]:seed|functionary-3.2|functionary|minicpm|xml|lfm2|glm|minimax|dsml-v4|dsml|apriel|hy3|solar|apertus|gigachat|kimi-k3|gemma4|hermes|mistral|phi4|granite|nemotron|cohere|command-r|deepseek-r1|deepseek|kimi|harmony|llama3|none:(seed functionary-3.2 functionary minicpm xml lfm2 glm minimax dsml-v4 dsml apriel hy3 solar apertus gigachat kimi-k3 gemma4 hermes mistral phi4 granite nemotron cohere command-r deepseek-r1 deepseek kimi harmony llama3 none)' \
                '--tool-choice[auto, none, required, or the name of the tool that must be called (default auto)]:CHOICE:' \
                '--constrain-tools[tool calls can only be what the tools'\'' schemas allow]' \
                '--template-vars[object with more variables for the template, or @FILE]:JSON:' \
                '--system[begin with this system message; run then uses the chat template]:TEXT:' \
                '--reasoning[show the model'\''s reasoning on standard error; auto\: on a terminal (default auto)]:auto|show|hide:(auto show hide)' \
                '-n[at most this many tokens; -1\: until the model or the context ends (default 256, in chat 512)]:N:' \
                '--max-tokens[at most this many tokens; -1\: until the model or the context ends (default 256, in chat 512)]:N:' \
                '--temperature[flatness of the distribution; 0 or less\: always the best token (default 0.7)]:T:' \
                '--top-k[keep the K best tokens; 0\: all (default 40)]:K:' \
                '--top-p[keep the best tokens whose probabilities add up to P (default 0.9)]:P:' \
                '--min-p[drop tokens less probable than P times the best (default 0.05)]:P:' \
                '--typical-p[keep the tokens of the most typical surprise that add up to P; 1\: all (default 1)]:P:' \
                '--top-n-sigma[keep logits within N standard deviations of the best; 0\: all (default 0)]:N:' \
                '--xtc-probability[chance of dropping the top choices but the last of them (default 0)]:P:' \
                '--xtc-threshold[probability that makes a token one of the top choices (default 0.1)]:P:' \
                '--temperature-range[vary the temperature by so much with the entropy; 0\: do not (default 0)]:R:' \
                '--temperature-exponent[how it follows the entropy (default 1)]:E:' \
                '--mirostat-tau[hold the surprise of the tokens here (Mirostat 2) instead of filtering; 0\: off (default 0)]:BITS:' \
                '--mirostat-eta[how fast Mirostat learns (default 0.1)]:E:' \
                '--repetition-penalty[weaken tokens that were generated already; 1\: off (default 1.1)]:R:' \
                '--frequency-penalty[take F off a token'\''s logit for each time that it was generated (default 0)]:F:' \
                '--presence-penalty[take F off the logit of each token that was generated (default 0)]:F:' \
                '--penalty-window[penalties look at the last N tokens, prompt included; 0\: at generated ones; -1\: at all (default 0)]:N:' \
                '--dry-multiplier[weaken tokens that would repeat a sequence (DRY); 0\: off (default 0)]:M:' \
                '--dry-base[by M B^(length - allowed) (default 1.75)]:B:' \
                '--dry-allowed-length[shorter sequences may repeat (default 2)]:N:' \
                '--dry-window[look at the last N tokens; -1\: at all (default -1)]:N:' \
                '*--dry-breaker[text that ends a sequence, instead of the usual\: line feed, colon, double quote, asterisk]:TEXT:' \
                '--samplers[stages and their order; others are off (default penalties;dry;temperature;top_n_sigma;top_k;typ_p;top_p;min_p;xtc)]:LIST:' \
                '--seed[start of the random numbers\: the same seed gives the same text (default\: random)]:N:' \
                '*--stop[end before this text; up to 16, taken literally (no \\n escapes)]:TEXT:' \
                '--ignore-eos[never choose the model'\''s end tokens]' \
                '*--logit-bias[add B to the logit of token ID; -inf bans it]:ID=B:' \
                '--grammar[hold the text to this grammar (GBNF)]:GBNF|@FILE:' \
                '--grammar-file[the same, from a file]:FILE:_files' \
                '-j[hold the text to JSON that this schema accepts]:JSON|@FILE:' \
                '--json-schema[hold the text to JSON that this schema accepts]:JSON|@FILE:' \
                '--json-schema-file[the same, from a file]:FILE:_files' \
                '--schema-lenient[leave out, with a warning, what cannot be enforced]' \
                '--schema-any-order[properties in any order (default\: the order of the schema)]' \
                '-t[threads; 0\: as many as suit this machine (default 0)]:N:' \
                '--threads[threads; 0\: as many as suit this machine (default 0)]:N:' \
                '-c[tokens that prompt and answer may have; 0\: 4096, or the model'\''s own if less; of bench as many as its tests need (default 0)]:N:' \
                '--context-size[tokens that prompt and answer may have; 0\: 4096, or the model'\''s own if less; of bench as many as its tests need (default 0)]:N:' \
                '--ubatch-size[prompt tokens computed at a time; 0\: 4096 (default 512)]:N:' \
                '--kv-type[type of cached keys and values (default f16)]:f16|f32|q8_0:(f16 f32 q8_0)' \
                '--format[form of the result, and of errors (default text)]:text|json|jsonl:(text json jsonl)' \
                '--unbuffered[write each token at once, to a pipe too]' \
                '-h[show this help]' \
                '--help[show this help]' \
                '-V[print the version]' \
                '--version[print the version]' \
                '*-v[tell more on standard error\: model, sampling, timing; twice\: details]' \
                '*--verbose[tell more on standard error\: model, sampling, timing; twice\: details]' \
                '-q[errors only on standard error]' \
                '--quiet[errors only on standard error]' \
                '--color[colour on standard error (default auto)]:auto|always|never:(auto always never)' \
                '--progress[progress on standard error; auto\: a bar on a terminal (default auto)]:auto|plain|json|none:(auto plain json none)' \
                '--log-file[also write all remarks, with details, to a file]:FILE:_files' \
                '*:model:_files'
            ;;
        inspect)
            _arguments \
                '-m[model file (GGUF), a folder with one, or builtin\:tiny]:PATH:_files' \
                '--model[model file (GGUF), a folder with one, or builtin\:tiny]:PATH:_files' \
                '--no-mmap[read the file into memory instead of mapping it]' \
                '--json[print JSON]' \
                '--format[form of the result, and of errors (default text)]:text|json|jsonl:(text json jsonl)' \
                '-h[show this help]' \
                '--help[show this help]' \
                '-V[print the version]' \
                '--version[print the version]' \
                '*-v[tell more on standard error\: model, sampling, timing; twice\: details]' \
                '*--verbose[tell more on standard error\: model, sampling, timing; twice\: details]' \
                '-q[errors only on standard error]' \
                '--quiet[errors only on standard error]' \
                '--color[colour on standard error (default auto)]:auto|always|never:(auto always never)' \
                '--progress[progress on standard error; auto\: a bar on a terminal (default auto)]:auto|plain|json|none:(auto plain json none)' \
                '--log-file[also write all remarks, with details, to a file]:FILE:_files' \
                '*:model:_files'
            ;;
        tokenize)
            _arguments \
                '-m[model file (GGUF), a folder with one, or builtin\:tiny]:PATH:_files' \
                '--model[model file (GGUF), a folder with one, or builtin\:tiny]:PATH:_files' \
                '--no-mmap[read the file into memory instead of mapping it]' \
                '--pre[pre-tokenizer to use instead of the one that the file names]:NAME:' \
                '-t[text; - reads it from standard input, as does leaving it out in a pipe]:TEXT:' \
                '--text[text; - reads it from standard input, as does leaving it out in a pipe]:TEXT:' \
                '-f[read the text from a file, without its last newline]:FILE:_files' \
                '--prompt-file[read the text from a file, without its last newline]:FILE:_files' \
                '--stdin[put standard input after the text, with an empty line between]' \
                '--no-bos[do not add the start token]' \
                '--no-special[treat text that spells a control token as plain text]' \
                '--ids[print the ids separated by spaces]' \
                '--json[print JSON]' \
                '--format[form of the result, and of errors (default text)]:text|json|jsonl:(text json jsonl)' \
                '-h[show this help]' \
                '--help[show this help]' \
                '-V[print the version]' \
                '--version[print the version]' \
                '*-v[tell more on standard error\: model, sampling, timing; twice\: details]' \
                '*--verbose[tell more on standard error\: model, sampling, timing; twice\: details]' \
                '-q[errors only on standard error]' \
                '--quiet[errors only on standard error]' \
                '--color[colour on standard error (default auto)]:auto|always|never:(auto always never)' \
                '--progress[progress on standard error; auto\: a bar on a terminal (default auto)]:auto|plain|json|none:(auto plain json none)' \
                '--log-file[also write all remarks, with details, to a file]:FILE:_files' \
                '*:model:_files'
            ;;
        template)
            _arguments \
                '-m[model file (GGUF), a folder with one, or builtin\:tiny]:PATH:_files' \
                '--model[model file (GGUF), a folder with one, or builtin\:tiny]:PATH:_files' \
                '--no-mmap[read the file into memory instead of mapping it]' \
                '--messages[list of messages; - reads it from standard input, as does leaving it out in a pipe]:JSON:' \
                '-f[read the text from a file, without its last newline]:FILE:_files' \
                '--prompt-file[read the text from a file, without its last newline]:FILE:_files' \
                '--chat-template[use this template\: chatml, gemma, granite, llama2, llama3, mistral, phi3, zephyr, or Jinja]:NAME:' \
                '--chat-template-file[use the Jinja template in a file]:FILE:_files' \
                '--tools[list of tools, or @FILE]:JSON:' \
                '--template-vars[object with more variables for the template, or @FILE]:JSON:' \
                '--no-generation-prompt[do not end with the beginning of an answer]' \
                '--json[print JSON]' \
                '--format[form of the result, and of errors (default text)]:text|json|jsonl:(text json jsonl)' \
                '-h[show this help]' \
                '--help[show this help]' \
                '-V[print the version]' \
                '--version[print the version]' \
                '*-v[tell more on standard error\: model, sampling, timing; twice\: details]' \
                '*--verbose[tell more on standard error\: model, sampling, timing; twice\: details]' \
                '-q[errors only on standard error]' \
                '--quiet[errors only on standard error]' \
                '--color[colour on standard error (default auto)]:auto|always|never:(auto always never)' \
                '--progress[progress on standard error; auto\: a bar on a terminal (default auto)]:auto|plain|json|none:(auto plain json none)' \
                '--log-file[also write all remarks, with details, to a file]:FILE:_files' \
                '*:model:_files'
            ;;
        logits)
            _arguments \
                '-m[model file (GGUF), a folder with one, or builtin\:tiny]:PATH:_files' \
                '--model[model file (GGUF), a folder with one, or builtin\:tiny]:PATH:_files' \
                '--no-mmap[read the file into memory instead of mapping it]' \
                '--prefault[bring all weights into memory before the first token, not with it]' \
                '--tuning[what cera bench --tune measured on this machine]:FILE:_files' \
                '--pre[pre-tokenizer to use instead of the one that the file names]:NAME:' \
                '*--lora[LoRA adapter\: a GGUF file, or a folder of PEFT'\''s]:PATH:_files' \
                '*--lora-scaled[the same with a factor]:PATH\:SCALE:' \
                '*--control-vector[control vector (GGUF), added behind each layer that it has a direction for]:FILE:_files' \
                '*--control-vector-scaled[the same with a factor]:FILE\:SCALE:' \
                '--control-vector-layer-range[add control vectors behind these layers only, counted from 0]:FIRST-LAST:' \
                '-p[prompt, of chat the first message; - reads standard input, as does leaving it out in a pipe]:TEXT:' \
                '--prompt[prompt, of chat the first message; - reads standard input, as does leaving it out in a pipe]:TEXT:' \
                '-f[read the text from a file, without its last newline]:FILE:_files' \
                '--prompt-file[read the text from a file, without its last newline]:FILE:_files' \
                '--stdin[put standard input after the text, with an empty line between]' \
                '--token-ids[use these token ids (1,2,3), and nothing else, as the prompt]:IDS:' \
                '--no-bos[do not add the start token]' \
                '--no-special[treat text that spells a control token as plain text]' \
                '-t[threads; 0\: as many as suit this machine (default 0)]:N:' \
                '--threads[threads; 0\: as many as suit this machine (default 0)]:N:' \
                '-c[tokens that prompt and answer may have; 0\: 4096, or the model'\''s own if less; of bench as many as its tests need (default 0)]:N:' \
                '--context-size[tokens that prompt and answer may have; 0\: 4096, or the model'\''s own if less; of bench as many as its tests need (default 0)]:N:' \
                '--ubatch-size[prompt tokens computed at a time; 0\: 4096 (default 512)]:N:' \
                '--kv-type[type of cached keys and values (default f16)]:f16|f32|q8_0:(f16 f32 q8_0)' \
                '--top-k[print the K largest, in descending order; 0\: all (default 0)]:K:' \
                '--json[print JSON]' \
                '--format[form of the result, and of errors (default text)]:text|json|jsonl:(text json jsonl)' \
                '-h[show this help]' \
                '--help[show this help]' \
                '-V[print the version]' \
                '--version[print the version]' \
                '*-v[tell more on standard error\: model, sampling, timing; twice\: details]' \
                '*--verbose[tell more on standard error\: model, sampling, timing; twice\: details]' \
                '-q[errors only on standard error]' \
                '--quiet[errors only on standard error]' \
                '--color[colour on standard error (default auto)]:auto|always|never:(auto always never)' \
                '--progress[progress on standard error; auto\: a bar on a terminal (default auto)]:auto|plain|json|none:(auto plain json none)' \
                '--log-file[also write all remarks, with details, to a file]:FILE:_files' \
                '*:model:_files'
            ;;
        embed)
            _arguments \
                '-m[model file (GGUF), a folder with one, or builtin\:tiny]:PATH:_files' \
                '--model[model file (GGUF), a folder with one, or builtin\:tiny]:PATH:_files' \
                '--no-mmap[read the file into memory instead of mapping it]' \
                '--prefault[bring all weights into memory before the first token, not with it]' \
                '--tuning[what cera bench --tune measured on this machine]:FILE:_files' \
                '--pre[pre-tokenizer to use instead of the one that the file names]:NAME:' \
                '*--lora[LoRA adapter\: a GGUF file, or a folder of PEFT'\''s]:PATH:_files' \
                '*--lora-scaled[the same with a factor]:PATH\:SCALE:' \
                '*--control-vector[control vector (GGUF), added behind each layer that it has a direction for]:FILE:_files' \
                '*--control-vector-scaled[the same with a factor]:FILE\:SCALE:' \
                '--control-vector-layer-range[add control vectors behind these layers only, counted from 0]:FIRST-LAST:' \
                '-p[prompt, of chat the first message; - reads standard input, as does leaving it out in a pipe]:TEXT:' \
                '--prompt[prompt, of chat the first message; - reads standard input, as does leaving it out in a pipe]:TEXT:' \
                '-f[read the text from a file, without its last newline]:FILE:_files' \
                '--prompt-file[read the text from a file, without its last newline]:FILE:_files' \
                '--stdin[put standard input after the text, with an empty line between]' \
                '--token-ids[use these token ids (1,2,3), and nothing else, as the prompt]:IDS:' \
                '--no-bos[do not add the start token]' \
                '--no-special[treat text that spells a control token as plain text]' \
                '-t[threads; 0\: as many as suit this machine (default 0)]:N:' \
                '--threads[threads; 0\: as many as suit this machine (default 0)]:N:' \
                '-c[tokens that prompt and answer may have; 0\: 4096, or the model'\''s own if less; of bench as many as its tests need (default 0)]:N:' \
                '--context-size[tokens that prompt and answer may have; 0\: 4096, or the model'\''s own if less; of bench as many as its tests need (default 0)]:N:' \
                '--ubatch-size[prompt tokens computed at a time; 0\: 4096 (default 512)]:N:' \
                '--kv-type[type of cached keys and values (default f16)]:f16|f32|q8_0:(f16 f32 q8_0)' \
                '--per-token[print a vector for each token instead of their mean]' \
                '--json[print JSON]' \
                '--format[form of the result, and of errors (default text)]:text|json|jsonl:(text json jsonl)' \
                '-h[show this help]' \
                '--help[show this help]' \
                '-V[print the version]' \
                '--version[print the version]' \
                '*-v[tell more on standard error\: model, sampling, timing; twice\: details]' \
                '*--verbose[tell more on standard error\: model, sampling, timing; twice\: details]' \
                '-q[errors only on standard error]' \
                '--quiet[errors only on standard error]' \
                '--color[colour on standard error (default auto)]:auto|always|never:(auto always never)' \
                '--progress[progress on standard error; auto\: a bar on a terminal (default auto)]:auto|plain|json|none:(auto plain json none)' \
                '--log-file[also write all remarks, with details, to a file]:FILE:_files' \
                '*:model:_files'
            ;;
        perplexity)
            _arguments \
                '-m[model file (GGUF), a folder with one, or builtin\:tiny]:PATH:_files' \
                '--model[model file (GGUF), a folder with one, or builtin\:tiny]:PATH:_files' \
                '--no-mmap[read the file into memory instead of mapping it]' \
                '--prefault[bring all weights into memory before the first token, not with it]' \
                '--tuning[what cera bench --tune measured on this machine]:FILE:_files' \
                '--pre[pre-tokenizer to use instead of the one that the file names]:NAME:' \
                '*--lora[LoRA adapter\: a GGUF file, or a folder of PEFT'\''s]:PATH:_files' \
                '*--lora-scaled[the same with a factor]:PATH\:SCALE:' \
                '*--control-vector[control vector (GGUF), added behind each layer that it has a direction for]:FILE:_files' \
                '*--control-vector-scaled[the same with a factor]:FILE\:SCALE:' \
                '--control-vector-layer-range[add control vectors behind these layers only, counted from 0]:FIRST-LAST:' \
                '-p[prompt, of chat the first message; - reads standard input, as does leaving it out in a pipe]:TEXT:' \
                '--prompt[prompt, of chat the first message; - reads standard input, as does leaving it out in a pipe]:TEXT:' \
                '-f[read the text from a file, without its last newline]:FILE:_files' \
                '--prompt-file[read the text from a file, without its last newline]:FILE:_files' \
                '--stdin[put standard input after the text, with an empty line between]' \
                '--token-ids[use these token ids (1,2,3), and nothing else, as the prompt]:IDS:' \
                '-c[tokens of a window, 3 or more; 0\: 512, or the model'\''s own context if less (default 0)]:N:' \
                '--context-size[tokens of a window, 3 or more; 0\: 512, or the model'\''s own context if less (default 0)]:N:' \
                '--chunks[measure the first N windows; 0\: all (default 0)]:N:' \
                '-t[threads; 0\: as many as suit this machine (default 0)]:N:' \
                '--threads[threads; 0\: as many as suit this machine (default 0)]:N:' \
                '--ubatch-size[prompt tokens computed at a time; 0\: 4096 (default 512)]:N:' \
                '--kv-type[type of cached keys and values (default f16)]:f16|f32|q8_0:(f16 f32 q8_0)' \
                '--json[print JSON]' \
                '--format[form of the result, and of errors (default text)]:text|json|jsonl:(text json jsonl)' \
                '-h[show this help]' \
                '--help[show this help]' \
                '-V[print the version]' \
                '--version[print the version]' \
                '*-v[tell more on standard error\: model, sampling, timing; twice\: details]' \
                '*--verbose[tell more on standard error\: model, sampling, timing; twice\: details]' \
                '-q[errors only on standard error]' \
                '--quiet[errors only on standard error]' \
                '--color[colour on standard error (default auto)]:auto|always|never:(auto always never)' \
                '--progress[progress on standard error; auto\: a bar on a terminal (default auto)]:auto|plain|json|none:(auto plain json none)' \
                '--log-file[also write all remarks, with details, to a file]:FILE:_files' \
                '*:model:_files'
            ;;
        grammar)
            _arguments \
                '-m[model file (GGUF), a folder with one, or builtin\:tiny]:PATH:_files' \
                '--model[model file (GGUF), a folder with one, or builtin\:tiny]:PATH:_files' \
                '--tools[list of tools, or @FILE]:JSON:' \
                '--tool-format[how the model marks tool calls (default\: as its template shows)]:seed|functionary-3.2|functionary|minicpm|xml|lfm2|glm|minimax|dsml-v4|dsml|apriel|hy3|solar|apertus|gigachat|kimi-k3|gemma4|hermes|mistral|phi4|granite|nemotron|cohere|command-r|deepseek-r1|deepseek|kimi|harmony|llama3|none:(seed functionary-3.2 functionary minicpm xml lfm2 glm minimax dsml-v4 dsml apriel hy3 solar apertus gigachat kimi-k3 gemma4 hermes mistral phi4 granite nemotron cohere command-r deepseek-r1 deepseek kimi harmony llama3 none)' \
                '--tool-choice[auto, none, required, or the name of the tool that must be called (default auto)]:CHOICE:' \
                '--seed[start of the random numbers\: the same seed gives the same text (default\: random)]:N:' \
                '-n[sample\: how many texts (default 1)]:N:' \
                '--samples[sample\: how many texts (default 1)]:N:' \
                '--grammar[hold the text to this grammar (GBNF)]:GBNF|@FILE:' \
                '--grammar-file[the same, from a file]:FILE:_files' \
                '-j[hold the text to JSON that this schema accepts]:JSON|@FILE:' \
                '--json-schema[hold the text to JSON that this schema accepts]:JSON|@FILE:' \
                '--json-schema-file[the same, from a file]:FILE:_files' \
                '--schema-lenient[leave out, with a warning, what cannot be enforced]' \
                '--schema-any-order[properties in any order (default\: the order of the schema)]' \
                '--json[print JSON]' \
                '--format[form of the result, and of errors (default text)]:text|json|jsonl:(text json jsonl)' \
                '-h[show this help]' \
                '--help[show this help]' \
                '-V[print the version]' \
                '--version[print the version]' \
                '*-v[tell more on standard error\: model, sampling, timing; twice\: details]' \
                '*--verbose[tell more on standard error\: model, sampling, timing; twice\: details]' \
                '-q[errors only on standard error]' \
                '--quiet[errors only on standard error]' \
                '--color[colour on standard error (default auto)]:auto|always|never:(auto always never)' \
                '--progress[progress on standard error; auto\: a bar on a terminal (default auto)]:auto|plain|json|none:(auto plain json none)' \
                '--log-file[also write all remarks, with details, to a file]:FILE:_files' \
                '*:model:_files'
            ;;
        cpu)
            _arguments \
                '--json[print JSON]' \
                '--format[form of the result, and of errors (default text)]:text|json|jsonl:(text json jsonl)' \
                '-h[show this help]' \
                '--help[show this help]' \
                '-V[print the version]' \
                '--version[print the version]' \
                '*-v[tell more on standard error\: model, sampling, timing; twice\: details]' \
                '*--verbose[tell more on standard error\: model, sampling, timing; twice\: details]' \
                '-q[errors only on standard error]' \
                '--quiet[errors only on standard error]' \
                '--color[colour on standard error (default auto)]:auto|always|never:(auto always never)' \
                '--progress[progress on standard error; auto\: a bar on a terminal (default auto)]:auto|plain|json|none:(auto plain json none)' \
                '--log-file[also write all remarks, with details, to a file]:FILE:_files' \
                '*:model:_files'
            ;;
        bench)
            _arguments \
                '-m[model file (GGUF), a folder with one, or builtin\:tiny]:PATH:_files' \
                '--model[model file (GGUF), a folder with one, or builtin\:tiny]:PATH:_files' \
                '--no-mmap[read the file into memory instead of mapping it]' \
                '--prefault[bring all weights into memory before the first token, not with it]' \
                '--tuning[what cera bench --tune measured on this machine]:FILE:_files' \
                '*--lora[LoRA adapter\: a GGUF file, or a folder of PEFT'\''s]:PATH:_files' \
                '*--lora-scaled[the same with a factor]:PATH\:SCALE:' \
                '*--control-vector[control vector (GGUF), added behind each layer that it has a direction for]:FILE:_files' \
                '*--control-vector-scaled[the same with a factor]:FILE\:SCALE:' \
                '--control-vector-layer-range[add control vectors behind these layers only, counted from 0]:FIRST-LAST:' \
                '-p[lengths of prompts, in tokens; 0\: no such test (default 512)]:LIST:' \
                '--n-prompt[lengths of prompts, in tokens; 0\: no such test (default 512)]:LIST:' \
                '-n[numbers of tokens to generate; 0\: no such test (default 128)]:LIST:' \
                '--n-gen[numbers of tokens to generate; 0\: no such test (default 128)]:LIST:' \
                '-d[tokens that are in the context before the test, not timed (default 0)]:LIST:' \
                '--n-depth[tokens that are in the context before the test, not timed (default 0)]:LIST:' \
                '--parallel[sessions that do the same at the same time, up to 256 (default 1)]:LIST:' \
                '-r[runs of each test (default 5)]:N:' \
                '--repetitions[runs of each test (default 5)]:N:' \
                '--warmup[runs before them that do not count (default 1)]:N:' \
                '--no-warmup[no such runs]' \
                '--roofline[compare with what the machine reads and multiplies at best]' \
                '--tune[measure how far ahead to ask for weights, write that to a file, and test nothing]:FILE:_files' \
                '--prompt-text[use this text instead of random tokens\: as it is, or with -p repeated or cut to length]:TEXT:' \
                '-t[numbers of threads, up to 256; 0\: as many as suit this machine (default 0)]:LIST:' \
                '--threads[numbers of threads, up to 256; 0\: as many as suit this machine (default 0)]:LIST:' \
                '-c[tokens that prompt and answer may have; 0\: 4096, or the model'\''s own if less; of bench as many as its tests need (default 0)]:N:' \
                '--context-size[tokens that prompt and answer may have; 0\: 4096, or the model'\''s own if less; of bench as many as its tests need (default 0)]:N:' \
                '--ubatch-size[prompt tokens computed at a time; 0\: 4096 (default 512)]:N:' \
                '--kv-type[type of cached keys and values (default f16)]:f16|f32|q8_0:(f16 f32 q8_0)' \
                '-o[form of the result (default md)]:md|csv|json|jsonl|sql:(md csv json jsonl sql)' \
                '--output[form of the result (default md)]:md|csv|json|jsonl|sql:(md csv json jsonl sql)' \
                '--json[print JSON]' \
                '--format[form of the result, and of errors (default text)]:text|json|jsonl:(text json jsonl)' \
                '-h[show this help]' \
                '--help[show this help]' \
                '-V[print the version]' \
                '--version[print the version]' \
                '*-v[tell more on standard error\: model, sampling, timing; twice\: details]' \
                '*--verbose[tell more on standard error\: model, sampling, timing; twice\: details]' \
                '-q[errors only on standard error]' \
                '--quiet[errors only on standard error]' \
                '--color[colour on standard error (default auto)]:auto|always|never:(auto always never)' \
                '--progress[progress on standard error; auto\: a bar on a terminal (default auto)]:auto|plain|json|none:(auto plain json none)' \
                '--log-file[also write all remarks, with details, to a file]:FILE:_files' \
                '*:model:_files'
            ;;
        quantize)
            _arguments \
                '--output-tensor-type[element type of the output matrix, instead of the mixture'\''s]:TYPE:' \
                '--token-embedding-type[element type of the token embedding, instead of the mixture'\''s]:TYPE:' \
                '--leave-output-tensor[keep the output matrix as it is]' \
                '--pure[one type for all tensors instead of a mixture]' \
                '--allow-requantize[take a file that is quantised already, at a cost in quality]' \
                '-t[threads; 0\: as many as suit this machine (default 0)]:N:' \
                '--threads[threads; 0\: as many as suit this machine (default 0)]:N:' \
                '--json[print JSON]' \
                '--format[form of the result, and of errors (default text)]:text|json|jsonl:(text json jsonl)' \
                '-h[show this help]' \
                '--help[show this help]' \
                '-V[print the version]' \
                '--version[print the version]' \
                '*-v[tell more on standard error\: model, sampling, timing; twice\: details]' \
                '*--verbose[tell more on standard error\: model, sampling, timing; twice\: details]' \
                '-q[errors only on standard error]' \
                '--quiet[errors only on standard error]' \
                '--color[colour on standard error (default auto)]:auto|always|never:(auto always never)' \
                '--progress[progress on standard error; auto\: a bar on a terminal (default auto)]:auto|plain|json|none:(auto plain json none)' \
                '--log-file[also write all remarks, with details, to a file]:FILE:_files' \
                '*:model:_files'
            ;;
        convert)
            _arguments \
                '--pre[pre-tokenizer to use instead of the one that the file names]:NAME:' \
                '-t[threads; 0\: as many as suit this machine (default 0)]:N:' \
                '--threads[threads; 0\: as many as suit this machine (default 0)]:N:' \
                '--json[print JSON]' \
                '--format[form of the result, and of errors (default text)]:text|json|jsonl:(text json jsonl)' \
                '-h[show this help]' \
                '--help[show this help]' \
                '-V[print the version]' \
                '--version[print the version]' \
                '*-v[tell more on standard error\: model, sampling, timing; twice\: details]' \
                '*--verbose[tell more on standard error\: model, sampling, timing; twice\: details]' \
                '-q[errors only on standard error]' \
                '--quiet[errors only on standard error]' \
                '--color[colour on standard error (default auto)]:auto|always|never:(auto always never)' \
                '--progress[progress on standard error; auto\: a bar on a terminal (default auto)]:auto|plain|json|none:(auto plain json none)' \
                '--log-file[also write all remarks, with details, to a file]:FILE:_files' \
                '*:model:_files'
            ;;
        completion)
            _arguments \
                '--format[form of the result, and of errors (default text)]:text|json|jsonl:(text json jsonl)' \
                '-h[show this help]' \
                '--help[show this help]' \
                '-V[print the version]' \
                '--version[print the version]' \
                '*-v[tell more on standard error\: model, sampling, timing; twice\: details]' \
                '*--verbose[tell more on standard error\: model, sampling, timing; twice\: details]' \
                '-q[errors only on standard error]' \
                '--quiet[errors only on standard error]' \
                '--color[colour on standard error (default auto)]:auto|always|never:(auto always never)' \
                '--progress[progress on standard error; auto\: a bar on a terminal (default auto)]:auto|plain|json|none:(auto plain json none)' \
                '--log-file[also write all remarks, with details, to a file]:FILE:_files' \
                '*:word:(bash zsh fish)'
            ;;
        help)
            _arguments \
                '--man[print the manual page, cera(1), as roff]' \
                '--format[form of the result, and of errors (default text)]:text|json|jsonl:(text json jsonl)' \
                '-h[show this help]' \
                '--help[show this help]' \
                '-V[print the version]' \
                '--version[print the version]' \
                '*-v[tell more on standard error\: model, sampling, timing; twice\: details]' \
                '*--verbose[tell more on standard error\: model, sampling, timing; twice\: details]' \
                '-q[errors only on standard error]' \
                '--quiet[errors only on standard error]' \
                '--color[colour on standard error (default auto)]:auto|always|never:(auto always never)' \
                '--progress[progress on standard error; auto\: a bar on a terminal (default auto)]:auto|plain|json|none:(auto plain json none)' \
                '--log-file[also write all remarks, with details, to a file]:FILE:_files' \
                '*:word:(run chat inspect tokenize template logits embed perplexity grammar cpu bench quantize convert completion help version)'
            ;;
        version)
            _arguments \
                '--features[also print what this build contains]' \
                '--format[form of the result, and of errors (default text)]:text|json|jsonl:(text json jsonl)' \
                '-h[show this help]' \
                '--help[show this help]' \
                '-V[print the version]' \
                '--version[print the version]' \
                '*-v[tell more on standard error\: model, sampling, timing; twice\: details]' \
                '*--verbose[tell more on standard error\: model, sampling, timing; twice\: details]' \
                '-q[errors only on standard error]' \
                '--quiet[errors only on standard error]' \
                '--color[colour on standard error (default auto)]:auto|always|never:(auto always never)' \
                '--progress[progress on standard error; auto\: a bar on a terminal (default auto)]:auto|plain|json|none:(auto plain json none)' \
                '--log-file[also write all remarks, with details, to a file]:FILE:_files' \
                '*:model:_files'
            ;;
    esac
}
_cera "$@"
