;;; edn-bridge-setups-tests.el --- The set-ups of the manual  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; The set-ups for Doom, Spacemacs and Evil in the manual are loaded in an
;; Emacs of their own, with the real Evil and use-package.  Of Doom and
;; Spacemacs themselves only what the set-ups call is there, as small as it
;; can be: `package!', `use-package!' and `map!', and Spacemacs' functions for
;; keys.

;;; Code:

(require 'edn-bridge-test-support)
(require 'edn-bridge-packages-tests)
(require 'edn-bridge-view-tests)

(defun edn-bridge-setups-tests-blocks (title)
  "Return the forms in the code blocks under TITLE in the manual."
  (with-temp-buffer
    (insert-file-contents (expand-file-name "../README.md"
                                            edn-bridge-test-directory))
    (re-search-forward (format "^### %s$" (regexp-quote title)))
    (let ((end (save-excursion (re-search-forward "^##") (line-beginning-position)))
          (forms nil))
      (while (re-search-forward "^```elisp\n" end t)
        (let ((block-end (save-excursion (re-search-forward "^```$")
                                         (line-beginning-position))))
          (save-restriction
            (narrow-to-region (point) block-end)
            (condition-case nil
                (while t (push (read (current-buffer)) forms))
              (end-of-file nil)))
          (goto-char block-end)
          (forward-line)))
      (nreverse forms))))

(defconst edn-bridge-setups-tests-doom
  '((defvar doom-leader-map (make-sparse-keymap))
    (defvar doom-localleader-keys nil)
    (defvar doom-packages nil)
    (defmacro package! (name &rest plist)
      `(push '(,name ,@plist) doom-packages))
    (defmacro use-package! (name &rest plist)
      `(use-package ,name ,@plist))
    (defmacro map! (&rest rest)
      (let ((map nil) (leader nil) (forms nil))
        (while rest
          (pcase (pop rest)
            (:map (setq map (pop rest)))
            (:leader (setq leader 'doom-leader-map))
            (:localleader (setq leader map))
            (:desc (pop rest))
            ((and (pred stringp) key)
             (push (if (eq leader 'doom-leader-map)
                       `(define-key doom-leader-map (kbd ,key) ,(pop rest))
                     `(push (list ',map ,key ,(pop rest))
                            doom-localleader-keys))
                   forms))
            (other (error "Unknown in map!: %S" other))))
        `(progn ,@(nreverse forms)))))
  "What Doom has of what the set-up calls.")

(defconst edn-bridge-setups-tests-spacemacs
  '((defvar spacemacs-default-map (make-sparse-keymap))
    (defvar spacemacs-mode-keys nil)
    (defun spacemacs/declare-prefix (prefix _name)
      (cl-assert (kbd prefix)))
    (defun spacemacs/set-leader-keys (key def &rest more)
      (while key
        (define-key spacemacs-default-map (kbd key) def)
        (setq key (pop more) def (pop more))))
    (defun spacemacs/set-leader-keys-for-major-mode (mode key def &rest more)
      (while key
        (push (list mode key def) spacemacs-mode-keys)
        (setq key (pop more) def (pop more)))))
  "What Spacemacs has of what the set-up calls.")

(defmacro edn-bridge-setups-tests-with (libraries &rest body)
  "Run BODY where LIBRARIES, and what they need, are there."
  (declare (indent 1) (debug t))
  `(progn
     (skip-unless (and edn-bridge-packages-tests-folder
                       (not (edn-bridge-packages-tests-missing ',libraries))))
     ,@body))

(ert-deftest edn-bridge-setups-doom-is-that-of-the-manual ()
  (edn-bridge-setups-tests-with (evil use-package)
    (pcase-let ((`(,packages ,key ,return ,mode ,keys)
                 (edn-bridge-view-tests-evil
                  `(progn
                     (require 'use-package)
                     ,@edn-bridge-setups-tests-doom
                     ,@(edn-bridge-setups-tests-blocks "Doom Emacs")
                     (list doom-packages
                           (keymapp (lookup-key doom-leader-map "e"))
                           edn-bridge-input-return-sends
                           edn-bridge-attention-mode
                           doom-localleader-keys)))))
      (should key)
      (should return)
      (should mode)
      (should (equal (plist-get (plist-get (cdr (car packages)) :recipe) :files)
                     '("emacs/edn-bridge*.el")))
      (should (= (length keys) 5))
      (pcase-dolist (`(,map ,_key ,command) keys)
        (should (eq map 'edn-bridge-chat-mode-map))
        (should (commandp command))))))

(ert-deftest edn-bridge-setups-spacemacs-is-that-of-the-manual ()
  (edn-bridge-setups-tests-with (evil use-package)
    (pcase-let ((`(,packages ,key ,mode ,keys)
                 (edn-bridge-view-tests-evil
                  `(progn
                     (require 'use-package)
                     ,@edn-bridge-setups-tests-spacemacs
                     ,@(edn-bridge-setups-tests-blocks "Spacemacs")
                     (edn-bridge/init-edn-bridge)
                     (list edn-bridge-packages
                           (keymapp (lookup-key spacemacs-default-map
                                                (kbd "o e")))
                           edn-bridge-attention-mode
                           spacemacs-mode-keys)))))
      (should (assq 'edn-bridge packages))
      (should key)
      (should mode)
      (should (= (length keys) 5))
      (pcase-dolist (`(,mode ,_key ,command) keys)
        (should (eq mode 'edn-bridge-chat-mode))
        (should (commandp command))))))

(ert-deftest edn-bridge-setups-evil-is-that-of-the-manual ()
  (edn-bridge-setups-tests-with (evil)
    (should
     (equal
      (edn-bridge-view-tests-evil
       `(progn
          ,@(edn-bridge-setups-tests-blocks "Evil")
          (list
           (with-temp-buffer
             (rename-buffer "file" t)
             (evil-local-mode)
             (evil-normal-state)
             (list (key-binding (kbd "SPC"))
                   (keymapp (key-binding (kbd "<leader> e")))))
           (with-temp-buffer
             (rename-buffer "*chat*" t)
             (edn-bridge-chat-mode)
             (remove-hook 'kill-buffer-hook #'edn-bridge-chat--on-kill t)
             evil-state))))
      '((evil-send-leader t) insert)))))

(provide 'edn-bridge-setups-tests)

;;; edn-bridge-setups-tests.el ends here
