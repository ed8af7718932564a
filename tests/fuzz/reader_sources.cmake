# What the readers need of the project and no more: the gate builds it for libFuzzer from nothing. A development build links the
# same files as `reader_sources_link`, so that one which is missing here is seen there.
set(TIDEMARK_READER_SOURCES "")
function(reader_sources folder)
  foreach(name ${ARGN})
    list(APPEND TIDEMARK_READER_SOURCES ${folder}/${name}.cc)
  endforeach()
  set(TIDEMARK_READER_SOURCES ${TIDEMARK_READER_SOURCES} PARENT_SCOPE)
endfunction()
reader_sources(core
  bytes fingerprint graph schedule time_term verify_shape)
reader_sources(device
  cpu_list host_topology process_places topology_check)
reader_sources(integrations/formats
  allocation_trace blank_text calibration_file captured_step_json captured_step_text csv_table expert_counts graph_columns
  import_architectures import_arguments import_captured_step import_device_samples import_expert_counts import_measured_memory
  import_memory_record import_minimalloc_csv import_op_times import_operator_memory import_rmm_log import_snapshot
  import_trace import_yaml int_column interval_gaps interval_problem json_node near_miss pickle_reader
  predicted_times_file program_columns program_file program_messages program_rules quantity rate_candidates search_log
  session_log shell_arithmetic shell_builtins shell_commands shell_condition shell_declarations shell_effects
  shell_expansion shell_follower shell_launch shell_left_out shell_lexer shell_names shell_parser shell_script
  shell_sourced shell_unusual shell_unusual_text shell_variables snapshot_origins time_constants time_device_file time_truth_file truth_file utf8
  yaml_fields yaml_tree)
reader_sources(integrations/ci
  baseline baseline_text budget_file budget_job control_texts content_hash date decimal_text job_limit json_parts
  load_choice plain_words rank_choice_text safe_text tolerance_text)
reader_sources(planner/budget
  growth holdings)
reader_sources(integrations/configs
  bridge bridge_keys config_kind key_judge mindformers mindformers_keys read_config titan titan_flavors titan_keys toml_keys
  yaml_keys)
reader_sources(planner/estimate
  argument_arity argument_attention argument_experts argument_mindspeed argument_model argument_numerics
  argument_optimizer argument_parallel argument_recompute argument_refused argument_table argument_training
  argument_value run_combinations run_derive run_doubts run_environment run_expressions run_layout run_validity
  run_vocabulary)
reader_sources(planner/layout
  check_packing order pack_problem)
reader_sources(planner/search
  architecture_space layout_space placement)
reader_sources(planner/step_time
  row_notes row_refusal row_run run_terms software tracks)
reader_sources(planner/graph_build
  captured_graph device_shapes dropped_rows job_spec layer_placement load_fit load_model load_shape parameter_count
  parameter_groups site_loads static_memory unplanned)
