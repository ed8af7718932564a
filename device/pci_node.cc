#include "device/pci_node.h"

#include <algorithm>
#include <cctype>
#include <fstream>

namespace tidemark {

int pci_numa_node(std::string bus_id) {
  std::transform(bus_id.begin(), bus_id.end(), bus_id.begin(),
                 [](char letter) { return static_cast<char>(std::tolower(static_cast<unsigned char>(letter))); });
  std::ifstream file("/sys/bus/pci/devices/" + bus_id + "/numa_node");
  int node = -1;
  return file >> node ? node : -1;
}

}  // namespace tidemark
