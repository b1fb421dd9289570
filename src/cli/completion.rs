//! `edn-bridge completion` and `edn-bridge man`: both are made from the table of commands when they are asked for, so that
//! they never differ from it, and nothing of them is in the program but what makes them.

use std::path::PathBuf;

use clap::{Command as Grammar, ValueEnum};

use super::failure::{Exit, Failure};
use super::out;

const NAME: &str = "edn-bridge";

/// A shell that completes commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Shell {
    Bash,
    Zsh,
    Fish,
    Nushell,
}

/// Prints what a shell needs to complete the program's commands.
pub(super) fn completion(program: &Grammar, shell: Shell) -> Exit {
    let (mut command, mut text) = (offered(program), Vec::new());
    match shell {
        Shell::Bash => clap_complete::generate(clap_complete::Shell::Bash, &mut command, NAME, &mut text),
        Shell::Zsh => clap_complete::generate(clap_complete::Shell::Zsh, &mut command, NAME, &mut text),
        Shell::Fish => clap_complete::generate(clap_complete::Shell::Fish, &mut command, NAME, &mut text),
        Shell::Nushell => {
            clap_complete::generate(clap_complete_nushell::Nushell, &mut command, NAME, &mut text)
        }
    }
    let text = String::from_utf8_lossy(&text);
    // clap_complete (4.6) takes the hyphen of the program's name for one before a subcommand, in half of the places.
    out::print(&text.replace("edn__subcmd__bridge", "edn__bridge"))
}

/// The command without what its help hides: the generators offer that too.
fn offered(command: &Grammar) -> Grammar {
    // A name must outlive the command, and the process ends with it.
    let name: &'static str = command.get_name().to_owned().leak();
    let about = command.get_about().cloned().unwrap_or_default();
    Grammar::new(name)
        .about(about)
        .args(command.get_arguments().filter(|argument| !argument.is_hide_set()))
        .subcommands(command.get_subcommands().filter(|below| !below.is_hide_set()).map(offered))
}

/// Prints the manual page, or writes it into a folder with a page for each command.
pub(super) fn man(command: Grammar, folder: Option<PathBuf>) -> Exit {
    let Some(folder) = folder else {
        let mut text = Vec::new();
        clap_mangen::Man::new(command).render(&mut text).map_err(Failure::io("the manual"))?;
        return out::print(&String::from_utf8_lossy(&text));
    };
    let failed = || Failure::io(folder.display().to_string());
    std::fs::create_dir_all(&folder).map_err(failed())?;
    let pages = pages(&command);
    clap_mangen::generate_to(command, &folder).map_err(failed())?;
    out::print(&format!("{pages} pages are in {}.\n", folder.display()))
}

/// How many pages a command has: one, and those of its subcommands.
fn pages(command: &Grammar) -> usize {
    command.get_subcommands().filter(|below| !below.is_hide_set()).map(pages).fold(1, usize::saturating_add)
}
