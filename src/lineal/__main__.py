"""`python -m lineal` is `lineal`."""

from lineal.cli import main

if __name__ == "__main__":
    main()
