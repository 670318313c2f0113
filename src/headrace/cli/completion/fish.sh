# Completion of headrace for fish.
function __headrace_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    for line in (_HEADRACE_COMPLETE=fish $before[1] $before[2..-1] "$current" 2>/dev/null)
        switch $line
            case :files
                __fish_complete_path "$current"
            case :folders
                __fish_complete_directories "$current" ''
            case :open
            case '*'
                echo $line
        end
    end
end
complete -c headrace -f -a '(__headrace_complete)'
