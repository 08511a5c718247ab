// The name of a kernel, for launch counts and messages, from its address.
//
// Looks the address up in the symbol table of the module on disk, since kernels are seldom exported; template arguments
// and parameters are cut off: all instantiations count as one kernel.
#pragma once

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
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

inline std::string kernel_name(const void* kernel) {
  static std::map<const void*, std::string> known;
  std::string& name = known[kernel];
  if (!name.empty()) return name;
  Dl_info info{};
  if (dladdr(kernel, &info) != 0) {
    static std::map<std::string, SymbolTable> tables;
    const SymbolTable& table = tables.try_emplace(info.dli_fname, info.dli_fname).first->second;
    const auto address = reinterpret_cast<uint64_t>(kernel);
    const std::string* symbol = table.find(address - reinterpret_cast<uint64_t>(info.dli_fbase));
    if (symbol == nullptr) symbol = table.find(address);
    if (symbol != nullptr) return name = short_name(symbol->c_str());
  }
  return name = "unnamed kernel";
}

}  // namespace reprocuda::emulation
