# A packer is one file: <name>.cc defines `extern const Packer k<Name>` (CamelCase). Listing it here is all: the table
# behind packers() is generated from this list, in this order (ties between orders go to the first).
set(TIDEMARK_PACKERS
  auto
  die_together
  first_fit_by_size
  first_fit_start_order
  long_lives_first
  cut_at_minima
  ring_first
  exact)

set(TIDEMARK_LAYOUT_FILES
  layout/best_fit_placer.cc layout/best_order.cc layout/blocks.cc layout/check_packing.cc layout/clock_walk.cc
  layout/clock_windows.cc layout/core_first.cc
  layout/exact_cause.cc layout/exact_parts.cc layout/improve.cc layout/load_profile.cc layout/repair.cc
  layout/ring.cc layout/rooms.cc layout/section_walk.cc layout/standing.cc
  layout/exact_search.cc layout/exact_sections.cc layout/exact_state.cc layout/exact_tree.cc layout/free_list.cc
  layout/lay_out.cc layout/order.cc layout/pack_problem.cc layout/packing_load.cc layout/placer.cc layout/time_tree.cc
  ${CMAKE_CURRENT_BINARY_DIR}/packer_table.cc)

set(TIDEMARK_PACKER_DECLARATIONS "")
set(TIDEMARK_PACKER_TABLE "")
foreach(name ${TIDEMARK_PACKERS})
  list(APPEND TIDEMARK_LAYOUT_FILES layout/${name}.cc)
  string(REPLACE "_" ";" words ${name})
  set(symbol k)
  foreach(word ${words})
    string(SUBSTRING ${word} 0 1 head)
    string(SUBSTRING ${word} 1 -1 tail)
    string(TOUPPER ${head} head)
    string(APPEND symbol ${head}${tail})
  endforeach()
  string(APPEND TIDEMARK_PACKER_DECLARATIONS "extern const Packer ${symbol};\n")
  string(APPEND TIDEMARK_PACKER_TABLE "${symbol}, ")
endforeach()
configure_file(${CMAKE_CURRENT_LIST_DIR}/packer_table.cc.in ${CMAKE_CURRENT_BINARY_DIR}/packer_table.cc @ONLY)
