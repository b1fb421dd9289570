# Evaluates flake.nix without nixpkgs, of which it names only what stands here:
#   nix-instantiate --eval --strict packaging/flake-test.nix
let
  pkgs = {
    cmake = "cmake";
    installShellFiles = "installShellFiles";
    rustPlatform = { buildRustPackage = recipe: recipe; bindgenHook = "bindgenHook"; };
  };
  systems = [ "x86_64-linux" "aarch64-linux" "aarch64-darwin" ];
  genAttrs = names: make: builtins.listToAttrs (map (name: { inherit name; value = make name; }) names);
  flake = (import ../flake.nix).outputs {
    self = ../.;
    nixpkgs = {
      lib = { inherit genAttrs; optionals = yes: list: if yes then list else [ ]; licenses = { mit = 1; asl20 = 2; }; };
      legacyPackages = genAttrs systems (_: pkgs);
    };
  };
  inherit (flake.packages.x86_64-linux) default small;
in
assert builtins.attrNames flake.packages == builtins.sort builtins.lessThan systems;
assert default.pname == "edn-bridge" && default.version == small.version;
assert builtins.pathExists default.cargoLock.lockFile;
assert !default.buildNoDefaultFeatures && small.buildNoDefaultFeatures && small.buildFeatures == [ "index" ];
assert builtins.elem "cmake" default.nativeBuildInputs && !builtins.elem "cmake" small.nativeBuildInputs;
"holds"
