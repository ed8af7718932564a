# What a training framework's own run of a job holds: arguments in (argument_*, run_*), memory of a rank out (the rest).
set(TIDEMARK_FRAMEWORK_FILES)
list(APPEND TIDEMARK_FRAMEWORK_FILES)
list(APPEND TIDEMARK_FRAMEWORK_FILES)
