"""`python -m lineal.demo`: the agent process. The demo itself is `lineal demo`."""

from lineal.demo.agent import main

main()
