# python.sh TIMES PYTHON has a CPython run bench.py, which must print the same each time.
PYTHONHOME=../python-home PYTHONHASHSEED=0 exec "$2" -S -B ../bench.py "$1"
