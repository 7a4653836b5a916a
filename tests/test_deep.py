"""Deeply nested arguments raise an exception that names the argument, and no crash."""

from support import ROOT, amount, run_python

SETUP = f"""
import collections, sys, threading
sys.path.append({str(ROOT / "tests")!r})
import hostile, public_calls

def objects(levels):
    kinds = list, tuple, collections.deque
    return [hostile.Endless(), *(hostile.deeper(kind, levels) for kind in kinds)]

# The last call of each public function with arrays or parameters as arguments.
OTHERS = "files.", "blocks.", "dtypes.", "dask.", "_weight.", "_published.", "_core.Calls"
FORMATS = "awq", "bitsandbytes", "compressed_tensors", "gptq", "matmulnbits", "mlx", "mx"
CALLS = {{
    name: (function, call)
    for name, function, call, _ in public_calls.recorded()
    if not name.startswith((*OTHERS, *FORMATS, "nvfp4"))
}}
# Any object has a truth value.
FLAGS = "saturate", "packed", "symmetric", "inverse"

def attempt(values):
    wrong = []
    for value in values:
        for label, (function, call) in CALLS.items():
            given = dict(call.arguments)
            for name in [one for one in call.signature.parameters if one != "self"]:
                call.arguments |= {{**given, name: value}}
                print(type(value), label, name, file=sys.stderr, flush=True)
                try:
                    function(*call.args, **call.kwargs)
                except (TypeError, ValueError) as error:
                    if not str(error).startswith(name):
                        wrong.append(f"{{label}}: {{error!r:.80}}")
                except BaseException as error:
                    wrong.append(f"{{label}}({{name}}=): {{error!r:.80}}")
                else:
                    if name not in FLAGS:
                        wrong.append(f"{{label}}({{name}}=) was accepted")
                call.arguments.pop(name, None)
            call.arguments |= given
    print("\\n".join(wrong) or "ok")
"""
# The main thread keeps the nested objects, because the small stack of the second thread may
# not suffice to destroy them.
THREAD = """
values = objects(3000)
threading.stack_size(256 * 1024)
thread = threading.Thread(target=attempt, args=(values,))
thread.start()
thread.join()
"""


def check(program):
    run = run_python(f"{SETUP}\n{program}", timeout=300)
    assert run.returncode == 0, f"{run.returncode} at: {run.stderr[-200:]}"
    assert run.stdout == "ok\n"


def test_no_argument_overflows_the_stack():
    check(f"values = objects({amount(30_000, 100_000)})\nattempt(values)")


def test_no_argument_overflows_the_small_stack_of_a_thread():
    check(THREAD)
