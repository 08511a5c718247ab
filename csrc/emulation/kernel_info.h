// What an address tells of a kernel: its name, for launch counts and messages, and the module that holds it, with the
// thread-local segment in which its `__shared__` variables lie.
//
// The name comes from the symbol table of the module on disk, since kernels are seldom exported; template arguments and
// parameters are cut off: all instantiations count as one kernel.
#pragma once

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace reprocuda::emulation {

inline std::string short_name(const char* symbol) {
  int status = 0;
  char* demangled = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
  std::string name = status == 0 ? demangled : symbol;
  std::free(demangled);
  constexpr const char* kAnonymous = "(anonymous namespace)::";
  for (size_t at; (at = name.find(kAnonymous)) != std::string::npos;) name.erase(at, std::strlen(kAnonymous));
  if (name.starts_with("void ")) name.erase(0, 5);
  name.resize(std::min(name.find('<'), name.find('(')) == std::string::npos ? name.size()
                                                                             : std::min(name.find('<'), name.find('(')));
  const size_t scope = name.rfind("::");
  return scope == std::string::npos ? name : name.substr(scope + 2);
}

class SymbolTable {
 public:
  explicit SymbolTable(const char* path) {
    std::ifstream file(path, std::ios::binary);
    ElfW(Ehdr) header;
    if (!read(file, 0, &header, sizeof header)) return;
    std::vector<ElfW(Shdr)> sections(header.e_shnum);
    if (!read(file, header.e_shoff, sections.data(), sections.size() * sizeof(ElfW(Shdr)))) return;
    for (const auto& section : sections) {
      if (section.sh_type != SHT_SYMTAB) continue;
      std::vector<ElfW(Sym)> symbols(section.sh_size / sizeof(ElfW(Sym)));
      std::vector<char> strings(sections[section.sh_link].sh_size);
      if (!read(file, section.sh_offset, symbols.data(), section.sh_size)) return;
      if (!read(file, sections[section.sh_link].sh_offset, strings.data(), strings.size())) return;
      for (const auto& symbol : symbols) {
        if (symbol.st_value != 0 && (symbol.st_info & 0xf) == STT_FUNC) names_[symbol.st_value] = &strings[symbol.st_name];
      }
    }
  }

  const std::string* find(uint64_t offset) const {
    const auto found = names_.find(offset);
    return found == names_.end() ? nullptr : &found->second;
  }

 private:
  static bool read(std::ifstream& file, uint64_t offset, void* out, size_t bytes) {
    file.seekg(static_cast<std::streamoff>(offset));
    file.read(static_cast<char*>(out), static_cast<std::streamsize>(bytes));
    return file.good();
  }

  std::map<uint64_t, std::string> names_;
};

struct KernelInfo {
  std::string name = "unnamed kernel";
  uintptr_t module_base = 0;
  size_t tls_module = 0;  // as the dynamic linker numbers thread-local segments; 0: none
  size_t tls_bytes = 0;
};

inline KernelInfo find_kernel(const void* kernel) {
  KernelInfo info;
  const auto address = reinterpret_cast<uintptr_t>(kernel);
  const auto visit = [](dl_phdr_info* module, size_t, void* data) -> int {
    auto& [address, info] = *static_cast<std::pair<uintptr_t, KernelInfo*>*>(data);
    bool holds = false;
    for (int i = 0; i < module->dlpi_phnum; ++i) {
      const auto& header = module->dlpi_phdr[i];
      holds |= header.p_type == PT_LOAD && address - module->dlpi_addr - header.p_vaddr < header.p_memsz;
    }
    if (!holds) return 0;
    info->module_base = module->dlpi_addr;
    for (int i = 0; i < module->dlpi_phnum; ++i) {
      if (module->dlpi_phdr[i].p_type != PT_TLS) continue;
      info->tls_module = module->dlpi_tls_modid;
      info->tls_bytes = module->dlpi_phdr[i].p_memsz;
    }
    return 1;
  };
  std::pair<uintptr_t, KernelInfo*> search{address, &info};
  dl_iterate_phdr(visit, &search);
  Dl_info file{};
  if (dladdr(kernel, &file) == 0) return info;
  static std::map<std::string, SymbolTable> tables;
  const SymbolTable& table = tables.try_emplace(file.dli_fname, file.dli_fname).first->second;
  const std::string* symbol = table.find(address - info.module_base);
  if (symbol != nullptr) info.name = short_name(symbol->c_str());
  return info;
}

inline const KernelInfo& kernel_info(const void* kernel) {
  static std::map<const void*, KernelInfo> known;
  const auto found = known.find(kernel);
  return found != known.end() ? found->second : known.emplace(kernel, find_kernel(kernel)).first->second;
}

}  // namespace reprocuda::emulation
