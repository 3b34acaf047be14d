from selfadapt.cli import main

main()
