"""Stub libraries under the names of CANN's, so that torch_npu can be loaded where there is no CANN. They are no NPU.

    cann_stubs.py TORCH_NPU_DIRECTORY STAND_IN_LIBRARY FOLDER
    cann_stubs.py --check TORCH_NPU_DIRECTORY LIBRARY    whether all that a library wants is there where it will be loaded

What torch_npu's libraries want and nothing on this machine has is generated as functions that answer "not supported"; they say so
once each on stderr where CANN_STUBS_SAY is set. The stand-in for ACL in tests/support/acl_stand_in, with acl_neighbours.cc beside it,
comes first: what it has is carried out in host memory, under the rules of ACL's documentation.
"""

import pathlib
import re
import subprocess
import sys

UNSUPPORTED = 207000  # ACL_ERROR_RT_FEATURE_NOT_SUPPORT


def dynamic(library, option):
    """Names that a library has (--defined-only) or wants (--undefined-only), without versions."""
    text = subprocess.run(["nm", "-D", "--format=posix", option, str(library)], check=True, capture_output=True, text=True).stdout
    rows = [line.split() for line in text.splitlines()]
    weak = {"w", "v"} if option == "--undefined-only" else set()
    return {row[0].split("@")[0] for row in rows if row[1] not in weak}


def needed(library):
    text = subprocess.run(["readelf", "-d", str(library)], check=True, capture_output=True, text=True).stdout
    return set(re.findall(r"\(NEEDED\).*\[(.*?)\]", text))


def answers(include):
    """What functions of ACL's headers return, by name."""
    pattern = re.compile(r"ACL_FUNC_VISIBILITY\s+(?:\[\[.*?\]\]\s*)?([\w\s]+?[\s*]+)(\w+)\s*\(")
    found = {}
    for header in include.rglob("*.h"):
        for kind, name in pattern.findall(header.read_text(errors="replace")):
            found[name] = " ".join(kind.split())
    return found


def stub(name, kind):
    if kind.endswith("*"):
        kind, value = "void*", "0"
    elif kind == "void":
        value = ""
    elif kind == "aclError":
        kind, value = "int", str(UNSUPPORTED)
    else:
        kind, value = "long", "0"
    return f'{kind} {name}(void) {{ static int said; say("{name}", &said); return {value}; }}'


HEAD = """#include <stdio.h>
#include <stdlib.h>
static void say(const char* name, int* said) {
  if (*said == 0 && getenv("CANN_STUBS_SAY") != NULL) fprintf(stderr, "stub of CANN: %s is not supported\\n", name);
  *said = 1;
}
"""


def unresolved(torch_npu, library):
    """What a library wants and neither those that it is linked to, nor torch_npu's and PyTorch's, nor Python have."""
    python = pathlib.Path(sys.executable).resolve()
    there = dynamic(python, "--defined-only")
    listed = "".join(subprocess.run(["ldd", str(one)], capture_output=True, text=True).stdout for one in (library, python))
    places = {pathlib.Path(place) for place in re.findall(r"(?:=> |^\s)(/\S+)", listed, re.M)}
    for folder in (torch_npu / "lib", torch_npu.parent / "torch" / "lib"):
        places |= set(folder.glob("*.so*"))
    for place in places:
        there |= dynamic(place, "--defined-only")
    return sorted(dynamic(library, "--undefined-only") - there)


def make(torch_npu, stand_in, folder):
    """Returns (names of libraries, names that the stand-in has, names that are stubs)."""
    folder.mkdir(parents=True, exist_ok=True)
    own = sorted((torch_npu / "lib").glob("*.so")) + sorted(torch_npu.glob("_C*.so"))
    known = {library.name for library in own} | {p.name for p in (torch_npu.parent / "torch_npu.libs").glob("*.so*")}
    of_torch = sorted((torch_npu.parent / "torch" / "lib").glob("*.so*"))
    known |= {library.name for library in of_torch}
    wanted = set().union(*(dynamic(library, "--undefined-only") for library in own))
    names, there = set(), set()
    for name in set().union(*(needed(library) for library in own)) - known:
        system = subprocess.run(["cc", f"-print-file-name={name}"], check=True, capture_output=True, text=True).stdout.strip()
        if "/" in system:
            there |= dynamic(system, "--defined-only")
        else:
            names.add(name)
    for library in own + of_torch:
        there |= dynamic(library, "--defined-only")
    there |= dynamic(pathlib.Path(sys.executable).resolve(), "--defined-only")
    missing = {name for name in wanted - there if not name.startswith(("Py", "_Py"))}
    has = dynamic(stand_in, "--defined-only")
    kinds = answers(torch_npu / "include" / "third_party" / "acl" / "inc")
    stubs = sorted(missing - has)
    source = folder / "stubs.c"
    source.write_text(HEAD + "\n".join(stub(name, kinds.get(name, "aclError")) for name in stubs) + "\n")
    build = ["cc", "-shared", "-fPIC", "-w", "-Wl,-rpath,$ORIGIN"]
    (folder / "libacl_stand_in.so").write_bytes(stand_in.read_bytes())
    build += ["-L", folder, "-Wl,--no-as-needed"]  # what is looked up in one of them is looked for in those behind it
    subprocess.run([*build, source, "-l:libacl_stand_in.so", "-o", folder / "libascendcl.so", "-Wl,-soname,libascendcl.so"], check=True)
    for name in sorted(names - {"libascendcl.so"}):
        subprocess.run([*build, "-l:libascendcl.so", "-o", folder / name, f"-Wl,-soname,{name}"], check=True)
    return sorted(names), sorted(missing & has), stubs


if __name__ == "__main__":
    if sys.argv[1] == "--check":
        sys.exit("".join(f"{sys.argv[3]}: nothing has {name}\n" for name in unresolved(*map(pathlib.Path, sys.argv[2:4]))) or 0)
    names, carried, stubs = make(*(pathlib.Path(argument) for argument in sys.argv[1:4]))
    print(f"stubs of CANN, no NPU: {', '.join(names)}; {len(carried)} functions by the stand-in for ACL, {len(stubs)} not supported")
