# bash completion for cera, made by: cera completion bash
_cera()
{
    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"
    local command="" i
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "${COMP_WORDS[i]}" in
            -*) ;;
            *) command="${COMP_WORDS[i]}"; break ;;
        esac
    done
    case "$before" in
        -m|--model) COMPREPLY=($(compgen -f -- "$word")); return ;;
        --tuning) COMPREPLY=($(compgen -f -- "$word")); return ;;
        --lora) COMPREPLY=($(compgen -f -- "$word")); return ;;
        --control-vector) COMPREPLY=($(compgen -f -- "$word")); return ;;
        -f|--prompt-file) COMPREPLY=($(compgen -f -- "$word")); return ;;
        --chat-template-file) COMPREPLY=($(compgen -f -- "$word")); return ;;
        --tool-format) COMPREPLY=($(compgen -W "seed functionary-3.2 functionary minicpm xml lfm2 glm minimax dsml-v4 dsml apriel hy3 solar apertus gigachat kimi-k3 gemma4 hermes mistral phi4 granite nemotron cohere command-r deepseek-r1 deepseek kimi harmony llama3 none" -- "$word")); return ;;
        --reasoning) COMPREPLY=($(compgen -W "auto show hide" -- "$word")); return ;;
        --tune) COMPREPLY=($(compgen -f -- "$word")); return ;;
        -d|--draft-model) COMPREPLY=($(compgen -f -- "$word")); return ;;
        --grammar-file) COMPREPLY=($(compgen -f -- "$word")); return ;;
        --json-schema-file) COMPREPLY=($(compgen -f -- "$word")); return ;;
        --kv-type) COMPREPLY=($(compgen -W "f16 f32 q8_0" -- "$word")); return ;;
        --output) COMPREPLY=($(compgen -W "md csv json jsonl sql" -- "$word")); return ;;
        --format) COMPREPLY=($(compgen -W "text json jsonl" -- "$word")); return ;;
        --color) COMPREPLY=($(compgen -W "auto always never" -- "$word")); return ;;
        --progress) COMPREPLY=($(compgen -W "auto plain json none" -- "$word")); return ;;
        --log-file) COMPREPLY=($(compgen -f -- "$word")); return ;;
    esac
    local words=""
    case "$command" in
        run) words=" --model --no-mmap --prefault --tuning --pre --lora --lora-scaled --control-vector --control-vector-scaled --control-vector-layer-range --prompt --prompt-file --chat-template --chat-template-file --tools --tool-format --tool-choice --constrain-tools --template-vars --system --reasoning --stdin --token-ids --no-bos --no-special --max-tokens --n-keep --temperature --top-k --top-p --min-p --typical-p --top-n-sigma --xtc-probability --xtc-threshold --temperature-range --temperature-exponent --mirostat-tau --mirostat-eta --repetition-penalty --frequency-penalty --presence-penalty --penalty-window --dry-multiplier --dry-base --dry-allowed-length --dry-window --dry-breaker --samplers --seed --stop --ignore-eos --logit-bias --logprobs --lookup --draft-model --draft-max --grammar --grammar-file --json-schema --json-schema-file --schema-lenient --schema-any-order --threads --context-size --ubatch-size --kv-type --cache-dir --cache-disk-gb --no-cache --format --unbuffered --help --version --verbose --quiet --color --progress --log-file" ;;
        chat) words=" --model --no-mmap --prefault --tuning --pre --lora --lora-scaled --control-vector --control-vector-scaled --control-vector-layer-range --prompt --chat-template --chat-template-file --tools --tool-format --tool-choice --constrain-tools --template-vars --system --reasoning --max-tokens --temperature --top-k --top-p --min-p --typical-p --top-n-sigma --xtc-probability --xtc-threshold --temperature-range --temperature-exponent --mirostat-tau --mirostat-eta --repetition-penalty --frequency-penalty --presence-penalty --penalty-window --dry-multiplier --dry-base --dry-allowed-length --dry-window --dry-breaker --samplers --seed --stop --ignore-eos --logit-bias --grammar --grammar-file --json-schema --json-schema-file --schema-lenient --schema-any-order --threads --context-size --ubatch-size --kv-type --format --unbuffered --help --version --verbose --quiet --color --progress --log-file" ;;
        inspect) words=" --model --no-mmap --json --format --help --version --verbose --quiet --color --progress --log-file" ;;
        tokenize) words=" --model --no-mmap --pre --text --prompt-file --stdin --no-bos --no-special --ids --json --format --help --version --verbose --quiet --color --progress --log-file" ;;
        template) words=" --model --no-mmap --messages --prompt-file --chat-template --chat-template-file --tools --template-vars --no-generation-prompt --json --format --help --version --verbose --quiet --color --progress --log-file" ;;
        logits) words=" --model --no-mmap --prefault --tuning --pre --lora --lora-scaled --control-vector --control-vector-scaled --control-vector-layer-range --prompt --prompt-file --stdin --token-ids --no-bos --no-special --threads --context-size --ubatch-size --kv-type --top-k --json --format --help --version --verbose --quiet --color --progress --log-file" ;;
        embed) words=" --model --no-mmap --prefault --tuning --pre --lora --lora-scaled --control-vector --control-vector-scaled --control-vector-layer-range --prompt --prompt-file --stdin --token-ids --no-bos --no-special --threads --context-size --ubatch-size --kv-type --per-token --json --format --help --version --verbose --quiet --color --progress --log-file" ;;
        perplexity) words=" --model --no-mmap --prefault --tuning --pre --lora --lora-scaled --control-vector --control-vector-scaled --control-vector-layer-range --prompt --prompt-file --stdin --token-ids --context-size --chunks --threads --ubatch-size --kv-type --json --format --help --version --verbose --quiet --color --progress --log-file" ;;
        grammar) words=" --model --tools --tool-format --tool-choice --seed --samples --grammar --grammar-file --json-schema --json-schema-file --schema-lenient --schema-any-order --json --format --help --version --verbose --quiet --color --progress --log-file" ;;
        cpu) words=" --json --format --help --version --verbose --quiet --color --progress --log-file" ;;
        bench) words=" --model --no-mmap --prefault --tuning --lora --lora-scaled --control-vector --control-vector-scaled --control-vector-layer-range --n-prompt --n-gen --n-depth --parallel --repetitions --warmup --no-warmup --roofline --tune --prompt-text --threads --context-size --ubatch-size --kv-type --output --json --format --help --version --verbose --quiet --color --progress --log-file" ;;
        quantize) words=" --output-tensor-type --token-embedding-type --leave-output-tensor --pure --allow-requantize --threads --json --format --help --version --verbose --quiet --color --progress --log-file" ;;
        convert) words=" --pre --threads --json --format --help --version --verbose --quiet --color --progress --log-file" ;;
        completion) words="bash zsh fish --format --help --version --verbose --quiet --color --progress --log-file" ;;
        help) words="run chat inspect tokenize template logits embed perplexity grammar cpu bench quantize convert completion help version --man --format --help --version --verbose --quiet --color --progress --log-file" ;;
        version) words=" --features --format --help --version --verbose --quiet --color --progress --log-file" ;;
        "") words="run chat inspect tokenize template logits embed perplexity grammar cpu bench quantize convert completion help version --help --version" ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    [[ $word != -* && -n $command ]] && COMPREPLY+=($(compgen -f -- "$word"))
}
complete -o filenames -F _cera cera
