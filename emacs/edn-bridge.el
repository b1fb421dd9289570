;;; edn-bridge.el --- Chat with a coding agent over EDN lines  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;; Version: 0.1.0
;; Package-Requires: ((emacs "28.1"))
;; Keywords: tools, processes, convenience

;;; Commentary:

;; The Emacs frontend of edn-bridge, a program that runs the sessions of a
;; coding agent and is spoken to in lines of EDN.
;;
;;   M-x edn-bridge            the chat of the current project
;;   M-x edn-bridge-ask-region a question about the region
;;   M-x edn-bridge-query      questions to the session in EQL
;;   M-x edn-bridge-log        the wire log of a connection
;;   M-x edn-bridge-daemon     what runs when no chat is open
;;   M-x edn-bridge-doctor     what is wrong, and what to do
;;
;; The program is found by `edn-bridge-program'.  README.md is the manual.
;;
;; The files, each using only those before it:
;;
;;   -constants            names of the protocol, generated
;;   -edn                  reader and printer
;;   -rpc                  process, requests, events; a library
;;   -program              where the program is, and how it is built
;;   -settings             provider, model, agent and mode of a project
;;   -visible              codes for characters that are not seen
;;   -view                 modes of buffers that show something
;;   -transcript           the parts of a chat buffer's text
;;   -markdown-inline      faces of markdown within a line
;;   -markdown-table       tables, laid out for the window
;;   -markdown-code        code blocks, with the faces of their language
;;   -markdown             faces for markdown as it streams in
;;   -chat-state           what a chat knows, and who shows its events
;;   -chat-place           how much of its session a chat shows
;;   -chat-header          the header line and the footer
;;   -chat                 the chat buffer and its connection
;;   -messages             the messages, streaming and from the journal
;;   -said                 what is sent, waits and is delivered
;;   -complete             choosing, and completion in the draft
;;   -input                sending, aborting, history
;;   -queue                the queue: edited, moved, taken back
;;   -tools-output         outputs and diffs, bounded and whole
;;   -tools                tool calls
;;   -shell                commands of the user, in the draft
;;   -follow               what a chat missed while it was away
;;   -buffers              buffers follow the files that are changed
;;   -files                the agent works on the buffers of open files
;;   -undo                 undo and redo of what turns did to files
;;   -ediff                a proposed change, with Ediff
;;   -interact             questions of the agent
;;   -interact-kinds       what each kind of them shows
;;   -work                 what works and waits, in any project
;;   -actions -attention -models -auth -trust -rules -mcp -sessions -tree -chats -jobs
;;                         what hangs on the chat
;;   -side                 questions beside the chat
;;   -ask -add -rewrite -context -hands -hands-tools -query -log -daemon -doctor -batch -usage
;;                         what stands beside it
;;   edn-bridge            the entry, and the keys together

;;; Code:

(require 'project)
(require 'edn-bridge-view)
(require 'edn-bridge-chat)
(require 'edn-bridge-messages)
(require 'edn-bridge-said)
(require 'edn-bridge-complete)
(require 'edn-bridge-input)
(require 'edn-bridge-queue)
(require 'edn-bridge-tools)
(require 'edn-bridge-shell)
(require 'edn-bridge-follow)
(require 'edn-bridge-buffers)
(require 'edn-bridge-files)
(require 'edn-bridge-undo)
(require 'edn-bridge-interact)
(require 'edn-bridge-interact-kinds)
(require 'edn-bridge-actions)
(require 'edn-bridge-work)
(require 'edn-bridge-attention)
(require 'edn-bridge-sessions)
(require 'edn-bridge-agents)
(require 'edn-bridge-models)
(require 'edn-bridge-auth)
(require 'edn-bridge-trust)
(require 'edn-bridge-rules)
(require 'edn-bridge-mcp)
(require 'edn-bridge-tree)
(require 'edn-bridge-chats)
(require 'edn-bridge-jobs)
(require 'edn-bridge-side)
(require 'edn-bridge-ask)
(require 'edn-bridge-add)
(require 'edn-bridge-rewrite)
(require 'edn-bridge-context)
(require 'edn-bridge-hands)
(require 'edn-bridge-hands-tools)
(require 'edn-bridge-query)
(require 'edn-bridge-log)
(require 'edn-bridge-daemon)
(require 'edn-bridge-doctor)
(require 'edn-bridge-usage)
(require 'edn-bridge-drafts)
(require 'edn-bridge-batch)

;;;; Opening a chat

(defun edn-bridge-directory ()
  "Return the folder that a chat started here is about.
It is the root of the project, or else `default-directory'."
  ;; Else project.el evaluates .dir-locals.el, which a command of an agent
  ;; may have written.
  (let ((project (let ((enable-dir-local-variables nil)) (project-current))))
    (file-name-as-directory
     (expand-file-name
      (if project (project-root project) default-directory)))))

;;;###autoload
(defun edn-bridge (&optional new)
  "Go to the chat of the current project, opening it if there is none.
With a prefix argument NEW, open another one."
  (interactive "P")
  (let ((buffer (edn-bridge-chat-buffer new)))
    (pop-to-buffer-same-window buffer)
    buffer))

(defun edn-bridge-chat-buffer (&optional new)
  "Return the chat buffer of the current project.
Where there is none, or with NEW non-nil, open one; it is connecting then."
  (let ((directory (edn-bridge-directory)))
    (or (and (not new)
             (car (edn-bridge-chat-buffers directory)))
        (edn-bridge--open directory new))))

(defun edn-bridge--open (directory new)
  "Return a new chat buffer of DIRECTORY, which is connecting.
With NEW non-nil, its session is to be a new one."
  (edn-bridge-chat-open
   directory
   (lambda () (setq edn-bridge-sessions-fresh (if new 'new t)))))

;;;; A side window

(defcustom edn-bridge-side-window-width 0.35
  "How wide the side window of `edn-bridge-toggle' is.
A fraction of the frame's width, or a number of columns."
  :type 'number
  :group 'edn-bridge)

;;;###autoload
(defun edn-bridge-toggle ()
  "Show the chat of the current project in a side window, or hide it."
  (interactive)
  (let* ((buffer (if (edn-bridge-chat-buffer-p (current-buffer))
                     (current-buffer)
                   (edn-bridge-chat-buffer)))
         (window (get-buffer-window buffer)))
    (cond
     ((not window)
      (select-window
       (display-buffer-in-side-window
        buffer `((side . right)
                 (window-width . ,edn-bridge-side-window-width)))))
     ((window-parameter window 'window-side)
      (delete-window window))
     (t
      (quit-restore-window window 'bury)))))

;;;; Keys for other buffers

(defvar edn-bridge-command-map
  (let ((map (make-sparse-keymap)))
    (pcase-dolist (`(,key ,label ,command)
                   '(("c" "chat" edn-bridge)
                     ("t" "side window" edn-bridge-toggle)
                     ("n" "who needs me" edn-bridge-attention-next)
                     ("l" "all sessions" edn-bridge-chats)
                     ("a" "ask about region" edn-bridge-ask-region)
                     ("r" "add region" edn-bridge-add-region)
                     ("e" "add error" edn-bridge-add-error)
                     ("f" "add file" edn-bridge-add-file)
                     ("i" "add image" edn-bridge-add-image)
                     ("s" "add what is at point" edn-bridge-add-at-point)
                     ("o" "add shell output" edn-bridge-add-output)
                     ("p" "add screenshot" edn-bridge-add-screenshot)
                     ("x" "explain" edn-bridge-explain)
                     ("F" "fix" edn-bridge-fix)
                     ("w" "rewrite region" edn-bridge-rewrite-region)
                     ("q" "quick question" edn-bridge-quick)
                     ("m" "commit message" edn-bridge-commit-message)
                     ("d" "doctor" edn-bridge-doctor)))
      ;; The label is for packages that show what may follow a key.
      (define-key map key (cons label command)))
    map)
  "Keymap of the commands for other buffers.
It is on no key by itself: bind it to one that you like.")

;;;###autoload (autoload 'edn-bridge-command-map "edn-bridge" nil nil 'keymap)
(fset 'edn-bridge-command-map edn-bridge-command-map)

;;;; Help

(defun edn-bridge--show-hint ()
  "Where nothing was said in this chat yet, show how to begin."
  (edn-bridge-chat-set-status
   'edn-bridge
   (and (= (point-min) (edn-bridge-transcript-end))
        (mapcar
         #'substitute-command-keys
         (if edn-bridge-input-return-sends
             '("RET sends what you write below, C-j breaks the line, \\[edn-bridge-menu] shows all commands")
           '("\\[edn-bridge-input-send] sends what you write below, \\[edn-bridge-menu] shows all commands"
             "`edn-bridge-input-return-sends' has RET send"))))))

(defun edn-bridge--hide-hint (&rest _)
  "Show no more how to begin: the user has."
  (edn-bridge-chat-set-status 'edn-bridge nil))

(add-hook 'edn-bridge-chat-ready-hook #'edn-bridge--show-hint)
(add-hook 'edn-bridge-input-send-hook #'edn-bridge--hide-hint)
(edn-bridge-chat-handle "user/message" #'edn-bridge--hide-hint)
(edn-bridge-chat-handle "command-result" #'edn-bridge--hide-hint)

(defconst edn-bridge--menu
  '(("Talk"
     ("RET" edn-bridge-input-send "send")
     ("q" edn-bridge-input-queue "queue for after the turn")
     ("W" edn-bridge-queue-go-to "go to the queue")
     ("L" edn-bridge-queue-resume "resume the queue")
     ("k" edn-bridge-input-abort "abort")
     ("i" edn-bridge-input-interrupt "stop after the tool call")
     ("A" edn-bridge-input-retry "ask the model again")
     ("G" edn-bridge-input-continue "continue the turn")
     ("z" edn-bridge-undo "undo a turn's changes")
     ("Z" edn-bridge-redo "redo a turn's changes")
     ("a" edn-bridge-interact-next "go to the next question")
     ("y" edn-bridge-interact-accept "approve")
     ("h" edn-bridge-input-search "input history")
     ("I" edn-bridge-add-image "send an image with it")
     ("'" edn-bridge-compose "compose in a buffer")
     ("D" edn-bridge-context-toggle "share your file, or not"))
    ("Session"
     ("s" edn-bridge-sessions-switch "switch")
     ("w" edn-bridge-tree "tree")
     ("K" edn-bridge-chats "all sessions")
     ("b" edn-bridge-sessions-continue "continue the last")
     ("R" edn-bridge-sessions-read "read another")
     ("n" edn-bridge-sessions-new "new")
     ("B" edn-bridge-agents-new "new, with an external agent")
     ("f" edn-bridge-sessions-fork "fork at point")
     ("E" edn-bridge-sessions-edit "edit a message, send again")
     ("N" edn-bridge-sessions-rename "rename")
     ("X" edn-bridge-sessions-delete "delete one")
     ("H" edn-bridge-sessions-archive "archive one")
     ("Y" edn-bridge-sessions-take "take over a session")
     ("x" edn-bridge-sessions-export "export")
     ("C" edn-bridge-sessions-copy-transcript "copy the transcript")
     ("r" edn-bridge-chat-reconnect "reconnect"))
    ("Model"
     ("m" edn-bridge-models-choose "model")
     ("v" edn-bridge-models-cycle "next model")
     ("l" edn-bridge-models-think "thinking level")
     ("P" edn-bridge-agents-set-option "options of the agent")
     ("p" edn-bridge-models-set-mode "permissions")
     ("c" edn-bridge-models-compact "compact")
     ("u" edn-bridge-models-show-stats "usage")
     ("U" edn-bridge-usage "usage over time"))
    ("Look"
     ("t" edn-bridge-tools-toggle "fold or unfold output")
     ("M" edn-bridge-markdown-toggle-markup "show or hide markup")
     ("j" edn-bridge-jobs "jobs")
     ("e" edn-bridge-query "query in EQL")
     ("g" edn-bridge-log "wire log")
     ("o" edn-bridge-rules "rules")
     ("O" edn-bridge-audit "audit")
     ("S" edn-bridge-mcp "MCP servers")
     ("T" edn-bridge-trust "trust this project")
     ("d" edn-bridge-doctor "doctor")))
  "The commands of a chat, in groups: key, command and what it does.")

(declare-function transient-prefix "transient")

(defun edn-bridge-menu ()
  "Show the commands of a chat, to be chosen by a key."
  (interactive nil edn-bridge-chat-mode)
  (if (and (require 'transient nil t)
           (edn-bridge--define-transient))
      (call-interactively 'edn-bridge--transient)
    (edn-bridge--help)))

(defun edn-bridge--define-transient ()
  "Define the transient of `edn-bridge-menu'; return nil if that fails."
  (or (fboundp 'edn-bridge--transient)
      (ignore-errors
        (eval `(transient-define-prefix edn-bridge--transient ()
                 "The commands of a chat."
                 [,@(mapcar
                     (lambda (group)
                       (vconcat
                        (list (car group))
                        (mapcar (pcase-lambda (`(,key ,command ,text))
                                  (list key text command))
                                (cdr group))))
                     edn-bridge--menu)])
              t)
        t)))

(defun edn-bridge--help ()
  "Show the commands of a chat in a help buffer."
  (let ((chat (current-buffer)))
    (with-help-window "*edn-bridge help*"
      (with-current-buffer standard-output
        (pcase-dolist (`(,title . ,rows) edn-bridge--menu)
          (insert (propertize title 'face 'bold) "\n")
          (pcase-dolist (`(,_key ,command ,text) rows)
            (insert (format "  %-12s %s\n"
                            (with-current-buffer chat
                              (substitute-command-keys
                               (format "\\[%s]" command)))
                            text)))
          (insert "\n"))))))

(let ((map edn-bridge-chat-mode-map))
  (define-key map (kbd "C-c ?") #'edn-bridge-menu)
  (define-key map (kbd "C-c C-l") #'edn-bridge-log)
  ;; Labels, for packages that show what may follow a key.
  (pcase-dolist (`(,_title . ,rows) edn-bridge--menu)
    (pcase-dolist (`(,_key ,command ,text) rows)
      (dolist (key (where-is-internal command (list map)))
        (define-key map key (cons text command))))))

(provide 'edn-bridge)

;;; edn-bridge.el ends here
