#compdef headrace
# Completion of headrace for zsh.
_headrace() {
    local line
    local -a found space
    while IFS= read -r line; do
        case "$line" in
            :files) _files; return ;;
            :folders) _files -/; return ;;
            :open) space=(-S '') ;;
            *) found+=("${${${line%%$'\t'*}//\\/\\\\}//:/\\:}:${line#*$'\t'}") ;;
        esac
    done < <(_HEADRACE_COMPLETE=zsh "${words[1]}" "${(@)words[2,CURRENT]}" 2>/dev/null)
    _describe -V headrace found "${space[@]}"
}
if [[ "${zsh_eval_context[-1]}" == loadautofunc ]]; then
    _headrace "$@"
else
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
    compdef _headrace headrace
fi
