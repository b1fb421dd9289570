# The program for Nix: `nix build`, `nix run . -- serve`. `nix build .#small` leaves out the embedded model.
{
  description = "An EDN-native RPC bridge between editors and a coding-agent session runtime";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      inherit (nixpkgs) lib;
      manifest = (builtins.fromTOML (builtins.readFile ./Cargo.toml)).package;
      forAllSystems = lib.genAttrs [ "x86_64-linux" "aarch64-linux" "aarch64-darwin" ];
      package = pkgs: model: pkgs.rustPlatform.buildRustPackage {
        pname = manifest.name;
        inherit (manifest) version;
        src = self;
        cargoLock.lockFile = ./Cargo.lock;
        buildNoDefaultFeatures = !model;
        buildFeatures = lib.optionals (!model) [ "index" ];
        nativeBuildInputs = [ pkgs.installShellFiles ]
          ++ lib.optionals model [ pkgs.cmake pkgs.rustPlatform.bindgenHook ];
        dontUseCmakeConfigure = true;
        # The tests need Emacs, node and the kernel's sandbox: `make test` runs them.
        doCheck = false;
        postInstall = ''
          for shell in bash zsh fish nushell; do $out/bin/edn-bridge completion $shell >edn-bridge.$shell; done
          installShellCompletion edn-bridge.bash edn-bridge.fish --zsh edn-bridge.zsh --nushell edn-bridge.nushell
          $out/bin/edn-bridge man pages
          installManPage pages/*
          install -Dm644 -t $out/share/emacs/site-lisp emacs/edn-bridge*.el
        '';
        meta = {
          inherit (manifest) description;
          license = [ lib.licenses.mit lib.licenses.asl20 ];
          mainProgram = manifest.name;
        };
      };
    in
    {
      packages = forAllSystems (system: rec {
        default = package nixpkgs.legacyPackages.${system} true;
        small = package nixpkgs.legacyPackages.${system} false;
      });
    };
}
