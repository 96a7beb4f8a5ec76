"""Profiles of backfeed for Bazel: a repository of those that a backfeed.lock names.

In MODULE.bazel:

    backfeed = use_extension("//tools:backfeed.bzl", "backfeed")
    backfeed.profiles(name = "profiles", lock = "//:backfeed.lock")
    use_repo(backfeed, "profiles")

It has a file TARGET_FORMAT for each output of the lock, with the ending that rules_cc asks for: for a target "api",
@profiles//:api_go, @profiles//:api_llvm.afdo, @profiles//:api_propeller.txt and @profiles//:api_propeller-order.txt.
Each is held to the lock's SHA-256. One of mode pin comes from the lock's store, which may be an address.
"""

_SCHEMA = "backfeed.lock/1"

# The endings by which rules_cc knows formats: of fdo_profile .afdo, of propeller_optimize .txt.
_ENDINGS = {"llvm": ".afdo", "gcc": ".afdo", "propeller": ".txt", "propeller-order": ".txt"}

def backfeed_outputs(text, where):
    """Reads a lock.

    Args:
      text: what the lock holds
      where: its name, for messages

    Returns:
      A list of structs: name in the repository, path below the lock's directory, store or "", name in it, sha256.
    """
    lock = json.decode(text)
    if type(lock) != "dict" or lock.get("schema") != _SCHEMA:
        fail("%s: its schema is not %s" % (where, _SCHEMA))
    outputs = []
    seen = {}
    for o in lock["outputs"]:
        stem = "%s_%s" % (o["target"], o["format"])
        seen[stem] = seen.get(stem, 0) + 1
        if seen[stem] > 1:  # a target with two outputs of one format, by path
            stem += "_%d" % seen[stem]
        name = stem + _ENDINGS.get(o["format"], "")
        path = o["path"]
        if "{hash}" in path:
            path = "/".join(path.split("/")[:-1] + [o["name"]])
        outputs.append(struct(name = name, path = path, store = o.get("store", ""), file = o["name"], sha256 = o["sha256"]))
    return outputs

def _profiles_impl(rctx):
    lock = rctx.path(rctx.attr.lock)
    rctx.watch(lock)
    outputs = backfeed_outputs(rctx.read(lock), str(rctx.attr.lock))
    for o in outputs:
        if o.store.startswith("https://") or o.store.startswith("http://"):
            url = o.store.rstrip("/") + "/" + o.file
        else:
            path = o.path
            if o.store:
                path = o.store.rstrip("/") + "/" + o.file
            if not path.startswith("/"):
                path = str(lock.dirname) + "/" + path
            url = "file://" + path
            rctx.watch(path)
        rctx.download(url = url, output = o.name, sha256 = o.sha256)  # fails if the file is another
    rctx.file("BUILD.bazel", "exports_files(%s, visibility = [\"//visibility:public\"])\n" % repr([o.name for o in outputs]))

backfeed_profiles = repository_rule(
    implementation = _profiles_impl,
    attrs = {"lock": attr.label(mandatory = True, allow_single_file = True)},
    doc = "A repository of the profiles that a lock names.",
)

def _backfeed_impl(mctx):
    for module in mctx.modules:
        for p in module.tags.profiles:
            backfeed_profiles(name = p.name, lock = p.lock)

backfeed = module_extension(
    implementation = _backfeed_impl,
    tag_classes = {"profiles": tag_class(attrs = {
        "name": attr.string(mandatory = True),
        "lock": attr.label(mandatory = True),
    })},
)
